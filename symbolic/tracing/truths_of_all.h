// truths_of_all: what an operator that answers with a truth says of all data of its tensors (torch.equal,
// torch.allclose), as a guard may observe it anew. Invariant: as for `(x == y).all()`, such a guard runs few operators,
// and stands for no loop that changes what it tests (value_reads.h).
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_TRUTHS_OF_ALL_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_TRUTHS_OF_ALL_H_

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

// A ValueSource that can do so is one of these, too.
class TruthSource {
 public:
  virtual ~TruthSource() = default;
  // `truth` observes one truth of the fakes' values. Nothing: the recording cannot go on with it.
  virtual std::optional<bool> RelyOnTruthOfAll(const std::vector<at::Tensor>& fakes, const Observation& truth) = 0;
};

[[nodiscard]] std::optional<bool> RelyOnTruthOfAll(const Recorder& recorder, const std::vector<at::Tensor>& fakes,
                                                   const Observation& truth);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_TRUTHS_OF_ALL_H_
