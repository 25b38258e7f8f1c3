// Partition: a joint functional graph → a forward and a backward graph, and what is saved between them.
// Invariant: the forward graph's outputs are the joint graph's without its gradients, in order, then the saved
// intermediates; the backward graph's inputs are the saved values, then the tangents. Random nodes run once, in
// the forward. A mutated input's old value is never saved as such: backward gets a copy or a value made from it. What
// a second derivative needs of written inputs is saved, too.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_PARTITION_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_PARTITION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/graph/backend.h"
#include "backends/graph/graph.h"
#include "backends/graph/input_writes.h"

namespace framefuse {

struct SavedValue {
  // Input `index` of the joint graph, or output `index` of the forward graph.
  bool is_input = false;
  std::int32_t index = 0;
  ir::ValueId value = ir::kNoValue;  // in the joint graph
  // What input `of_written`, which the graph writes, held before, or what it was written with (`is_new`): a second
  // derivative starts from it, with the history that the input had then.
  std::int32_t of_written = -1;
  bool is_new = false;
  // It is a copy as SavedCopy, of that input or output; `counts_with`: the output of the forward graph whose version
  // goes with it, if any does.
  bool is_copy = false;
  std::int32_t counts_with = -1;
  ir::InputReads reads;                // of an input itself
  std::vector<std::int64_t> saved_by;  // of a result (ir::SavedByOthers), or an input itself
  bool IsInputItself() const { return is_input && !is_copy; }
};

struct Partitioned {
  ir::Graph joint;  // as given, but that copies stand for the old values of written inputs
  ir::Graph forward;
  ir::Graph backward;
  std::vector<std::int32_t> forward_output;  // joint output → forward output, -1 for gradients
  std::vector<SavedValue> saved;             // the first inputs of `backward`
  std::vector<std::int32_t> tangents;        // joint input of each further input of `backward`
  std::vector<std::int32_t> gradients;       // joint output of each output of `backward`
  std::int64_t saved_bytes = 0;              // intermediates, at the hints
  std::int64_t recomputed_nodes = 0;
};

absl::StatusOr<Partitioned> Partition(ir::Graph joint, const BackendOptions& options);

// What the backward of a graph as it was captured reads, by input and by output; for the saved values of what it
// became.
struct CapturedReads {
  std::vector<ir::InputReads> of_inputs;
  std::vector<std::vector<std::int64_t>> of_outputs;
};
CapturedReads ReadsOf(const ir::Graph& captured);
void AddReads(const CapturedReads& reads, Partitioned* parts);

// Bytes of a value at the hints; numbers count 8.
std::int64_t BytesOf(const ir::Graph& graph, ir::ValueId value);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_PARTITION_H_
