// RecordedConstants: real tensors and Python numbers that a recording reads as they are.
// Invariant: each is one value of the graph, and what it is known by lives as long as the recording.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_RECORDED_CONSTANTS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_RECORDED_CONSTANTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "backends/graph/graph.h"

namespace framefuse::tracing {

class Recorder;

class RecordedConstants {
 public:
  // Makes `real` (never written) a constant of the graph. The graph keeps a detached alias.
  ir::ValueId Add(Recorder& recorder, const at::Tensor& real);
  // A Python number that torch wrapped in a tensor.
  ir::ValueId AddNumber(Recorder& recorder, const at::Tensor& wrapped);
  // One a constant, which is added.
  at::Tensor FakeOf(Recorder& recorder, const at::Tensor& real);
  std::optional<ir::ValueId> Find(const at::Tensor& real) const;  // nothing: it was not added
  bool Contains(ir::ValueId value) const { return values_.contains(value); }

 private:
  absl::flat_hash_map<c10::TensorImpl*, ir::ValueId> by_tensor_;
  absl::flat_hash_map<c10::TensorImpl*, at::Tensor> fakes_;
  // Python numbers in tensor arguments, by type, bits and whether a backward formula made them.
  absl::flat_hash_map<std::tuple<int, std::uint64_t, bool>, ir::ValueId> numbers_;
  absl::flat_hash_set<const void*> forward_numbers_;  // their memory
  absl::flat_hash_set<ir::ValueId> values_;
  std::vector<at::Tensor> kept_;  // keeps the keys of the maps alive
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_RECORDED_CONSTANTS_H_
