// record_branch: the branches of a conditional, recorded one after the other and taken out of the graph, as the
// arguments of the operator framefuse::cond.
// Invariant: after EndBranch no node of the branch is in the graph, and using a result of one is a break; a branch
// that cannot stand alone (it writes from outside, gives memory of it away …) is FailedPrecondition with the
// break's explanation. What is recorded lives in the Recorder.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_RECORD_BRANCH_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_RECORD_BRANCH_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse::tracing {

// `readable`: all tensors that a branch may read. Till the branches are joined each is as if nothing had computed it:
// the engine would follow one into another.
void BeginConditional(Recorder& recorder, const std::vector<at::Tensor>& readable);
void BeginBranch(Recorder& recorder);
absl::Status EndBranch(Recorder& recorder, std::vector<at::Tensor> outputs);

// As the operator's schema says; [0]: if the condition is false, [1]: if it is true.
struct JoinedBranches {
  std::string branches[2];
  std::string backward[2];
  std::vector<at::Tensor> operands;
  std::vector<std::int64_t> saved;
  std::vector<std::int64_t> differentiable;
  std::vector<std::int64_t> with_gradient;
  bool random = false;
  std::vector<std::int64_t> random_devices;  // if it is random and has a gradient
};
// Of the last two branches that were recorded: the one for true, then the one for false.
absl::StatusOr<JoinedBranches> JoinBranches(Recorder& recorder, OriginProvider* origins);
// Of the last branch, for both: what it does not make a gradient for has none.
absl::StatusOr<JoinedBranches> JoinOneBranch(Recorder& recorder, OriginProvider* origins);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_RECORD_BRANCH_H_
