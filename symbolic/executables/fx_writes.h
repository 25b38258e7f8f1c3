// Writes of inputs by an FX graph. Where one of its operators raises after them, they are taken back, and the frame
// runs as Python: handlers and effects come where eager's do. Invariant: after TakeBack() the inputs have the memory
// and the versions of before, so that nothing is written twice.
#ifndef FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_WRITES_H_
#define FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_WRITES_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "backends/graph/input_writes.h"
#include "frame_eval/ref.h"

namespace framefuse {

// One input that a graph writes.
struct FxWrite {
  ir::InputWrite in_graph;
  std::size_t input = 0;  // of the callable's
  bool counted = true;    // its version tells whether it was written
  bool followed = false;  // autograd gives it another history, which nobody takes back
  int bumps = -1;         // of its version in eager, where the graph has others; -1: as the graph has them
};

// The first node that may raise when a write that cannot be taken back was done; -1: none.
int NodeAfterFollowedWrite(const ir::Graph& graph, absl::Span<const FxWrite> writes);

// The written inputs of one call, as they were before.
class FxWrittenInputs {
 public:
  FxWrittenInputs(absl::Span<const FxWrite> writes, absl::Span<PyObject* const> inputs);
  // False: what was written, or may have been, was not kept; nothing is taken back then.
  bool TakeBack() const;
  // When the graph has run.
  void CountAsEager() const;

 private:
  struct Input {
    const at::Tensor* tensor = nullptr;
    bool counted = false;
    bool followed = false;
    std::int64_t version = 0;
    int bumps = -1;
    std::optional<ir::KeptMemory> memory;
  };
  std::vector<Input> inputs_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_WRITES_H_
