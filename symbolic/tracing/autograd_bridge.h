// The few meetings with torch's autograd engine, in one file because its headers are slow to compile.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_AUTOGRAD_BRIDGE_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_AUTOGRAD_BRIDGE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace framefuse::tracing {

// Gives `fake` a grad_fn of its own, so that it is no leaf, as the real tensor it stands for. The result is an alias
// that keeps this history when the program writes the fake in place: gradients are asked for there.
at::Tensor MakeNonLeaf(const at::Tensor& fake);
// Gives tensors that are no leaves histories of their own, so that none is computed with another. The result gives
// them back what they had; it must be called, or the tensors dropped.
std::function<void()> CutHistories(const std::vector<at::Tensor>& fakes);
// Whether the tensor's history is its own: a leaf's, an input's or one that CutHistories made.
bool HasOwnHistory(const at::Tensor& fake);
// Whether a pass from the outputs comes to the history of an input that is no leaf, other than `target`'s own: behind
// it, where the capture does not see, there may be a way to `target`.
bool ReachesHistoryOfOther(const std::vector<at::Tensor>& outputs, const at::Tensor& target);
// torch.autograd.grad with allow_unused. The GIL must not be held.
std::vector<at::Tensor> Gradients(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                                  const std::vector<at::Tensor>& tangents);
// Frees what the nodes of their histories have saved. None of them will run any more.
void ReleaseHistories(const std::vector<at::Tensor>& fakes);
// Sequence number of the node that the engine runs on this thread, -1 if none: it equals the one that the
// forward operator got.
std::int64_t CurrentBackwardSequence();
std::string CurrentBackwardName();  // of the node that the engine runs; empty: none
// Sequence number that the last autograd node of this thread got.
std::int64_t LastForwardSequence();
// Hooks that run when a gradient reaches the tensor.
bool HasGradientHooks(const at::Tensor& t);
// What hooks of an input would tell that a graph does otherwise; null: nothing. A write leaves them to the history that
// the tensor had (`history`: the fake's alias, if any), and takes that one from a view.
const char* WhyHooksTell(const at::Tensor& real, const at::Tensor& fake, const at::Tensor& history, bool is_written);
// Drops what a backward that failed left in the engine's queue of this thread: it holds gradients until the next one.
void ForgetUnrunTasks();
// Empties autocast's cache, which may hold casts of fakes for as long as the program's autocast region lasts.
void ForgetCasts();
// A stretch in which the forward of an autograd.Function runs: what it computes has no history, but its results do, and
// second derivatives take the way through what computed them. Nests.
class FunctionForwardScope {
 public:
  FunctionForwardScope();
  ~FunctionForwardScope();
  FunctionForwardScope(const FunctionForwardScope&) = delete;
  FunctionForwardScope& operator=(const FunctionForwardScope&) = delete;
  static bool IsOpen();
};
// The gradient function's identity, to see whether it was replaced.
const void* GradientFunction(const at::Tensor& t);
// A view whose base was written since has a history that is made when it is asked for; at::Tensor::is_leaf does not
// ask.
inline bool IsLeaf(const at::Tensor& t) { return GradientFunction(t) == nullptr; }

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_AUTOGRAD_BRIDGE_H_
