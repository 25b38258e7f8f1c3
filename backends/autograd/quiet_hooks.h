// quiet_hooks: in eager a leaf's hooks run in those backward passes that reach the leaf. Outputs of one graph share a
// node, which leads to all leaves; a pass that starts from some of the outputs brings the others' leaves an undefined
// gradient, which their hooks, and those on their nodes, must not see.
// Invariant: a hook is passed over only in the pass that it was silenced for, and only where no gradient has arrived.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_QUIET_HOOKS_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_QUIET_HOOKS_H_

#include <torch/csrc/autograd/function.h>

namespace framefuse {

// `leaf` is the node that accumulates its gradient. For the backward pass under way on this thread.
void SilenceHooks(const decltype(torch::autograd::Edge::function)& leaf);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_QUIET_HOOKS_H_
