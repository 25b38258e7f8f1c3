// RecordedInputs: which values of a recording are inputs, and what their memory allows.
// Invariant: inputs may have their memory written, never their metadata.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_RECORDED_INPUTS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_RECORDED_INPUTS_H_

#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "backends/graph/graph.h"
#include "symbolic/tracing/input_memory.h"

namespace framefuse::tracing {

class RecordedInputs {
 public:
  void Mark(const ir::Graph& graph, ir::ValueId value, bool is_inference);
  bool Contains(ir::ValueId value) const;
  InputMemory& memory() { return memory_; }
  // Takes a write to any storage; the text says why it cannot be.
  std::optional<std::string_view> RefusalOfWrite(ir::StorageId storage);

 private:
  std::vector<bool> is_input_;  // by value
  absl::flat_hash_set<ir::StorageId> inference_storages_;
  InputMemory memory_;
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_RECORDED_INPUTS_H_
