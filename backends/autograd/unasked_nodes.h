// unasked_nodes: a pass for some inputs (torch.autograd.grad, backward(inputs=…)) runs the nodes that lead to them. A
// graph's node has edges to what any of its outputs was made of, so the engine takes nodes for needed that lead to an
// output from which nothing asked for is reached. Eager does not run them.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_UNASKED_NODES_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_UNASKED_NODES_H_

namespace framefuse {

// For the pass under way, at the first graph's node that runs in it: those that have not run yet will not.
void PassOverUnasked();

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_UNASKED_NODES_H_
