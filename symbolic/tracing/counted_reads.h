// Counted reads: a saved tensor's version is compared by eager's backward, and `x.data` counts for itself. So what the
// backward of a graph reads of its inputs and results is asked which version goes with it (ir::CopyRead).
// Invariant: only tensors without a history that the forward made are told apart; all else counts with the input or
// result whose memory it is.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_COUNTED_READS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_COUNTED_READS_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/ArrayRef.h>

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "backends/graph/graph.h"
#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/state.h"

namespace framefuse::tracing {

// While the backward of a graph is recorded, on this thread.
class CountedReads {
 public:
  // `outputs`: of which the graph's first outputs tell.
  CountedReads(Recorder& recorder, const std::vector<InputRecord>& inputs, const std::vector<at::Tensor>& outputs);
  ~CountedReads();
  CountedReads(const CountedReads&) = delete;
  CountedReads& operator=(const CountedReads&) = delete;

  // Of a node that is about to be recorded.
  static void Mark(c10::ArrayRef<c10::IValue> args, ir::Node* node);

 private:
  // Whose versions go with the memory, and with what is handed out as `x.data`.
  struct Counters {
    std::vector<const void*> own, copies;
  };
  ir::ValueId Read(const at::Tensor& t, ir::ValueId value, const ir::Node& node) const;

  Recorder& recorder_;
  const ir::ValueId first_of_backward_;
  absl::flat_hash_map<const c10::StorageImpl*, Counters> of_memory_;
  absl::flat_hash_set<ir::StorageId> inputs_;
  CountedReads* const outer_;
};

// Breaks if an input is a view whose reads lead to several histories (ir::RenewedReads): those of one graph lead to
// one. `rebased`: whether it is also written with a history, by its number.
absl::Status CheckPartedReads(Recorder& recorder, const std::vector<InputRecord>& inputs,
                              absl::FunctionRef<bool(int)> rebased);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_COUNTED_READS_H_
