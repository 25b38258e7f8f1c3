// UnbackedOutputs: the outputs of a forward graph that define symbols (ir::OutputRole::kUnbacked), for a plan that
// needs their values once the forward has run: for views, for the backward, for its caller. Invariant: thread-safe once
// the plan is compiled.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_UNBACKED_OUTPUTS_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_UNBACKED_OUTPUTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "backends/graph/graph.h"

namespace framefuse {

class UnbackedOutputs {
 public:
  bool empty() const { return outputs_.empty(); }
  void Add(std::int32_t forward_output, const ir::Output& o, ir::NumberType type) {
    outputs_.push_back({static_cast<std::size_t>(forward_output), static_cast<std::size_t>(o.symbol), o.dim, type});
  }
  // Metadata of the joint graph's backward may have been guessed, too.
  void WatchGuessesOf(const ir::Graph& joint);
  // Sets the symbols that the outputs define.
  absl::Status Take(absl::Span<const at::Tensor> outputs, absl::Span<std::int64_t> symbols) const;

 private:
  struct Unbacked {
    std::size_t output = 0;  // of the forward graph
    std::size_t symbol = 0;
    std::int32_t dim = 0;  // as in ir::Output
    ir::NumberType type = ir::NumberType::kInt;
  };
  std::vector<Unbacked> outputs_;
  ir::Graph guessed_;  // without nodes: there are none
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_UNBACKED_OUTPUTS_H_
