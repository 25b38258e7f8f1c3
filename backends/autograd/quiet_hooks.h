// quiet_hooks: a graph may bring a leaf its gradient while it still runs (AccumulateEarly). The engine comes to the
// leaf once more when the graph's node has run, with an undefined gradient, which hooks on the leaf and on its node
// must not see. Invariant: a hook is passed over only in the pass that it was silenced for, and only where no gradient
// has arrived.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_QUIET_HOOKS_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_QUIET_HOOKS_H_

#include <torch/csrc/autograd/function.h>

namespace framefuse {

// `leaf` is the node that accumulates its gradient. For the backward pass under way on this thread.
void SilenceHooks(const decltype(torch::autograd::Edge::function)& leaf);
// In a pass that captures the leaf's gradient: its tensor's hooks have been called, and what comes is what they gave.
void SilenceTensorHooks(const decltype(torch::autograd::Edge::function)& leaf);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_QUIET_HOOKS_H_
