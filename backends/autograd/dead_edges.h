// dead_edges: a graph's node has an edge to each leaf that any of its outputs was made of. In a pass that comes to some
// of the outputs, eager has no edge to the leaves of the others, and no leaf waits for one. The engine counts them all.
// Invariant: from the first graph's node of a pass on, a leaf's count has those edges only that eager has, except while
// their node hands over what it computed: the engine counts all edges of the node down then.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_DEAD_EDGES_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_DEAD_EDGES_H_

#include <torch/csrc/autograd/function.h>

namespace framefuse {

// `node`, a graph's, runs in the pass under way. The first one takes the dead edges of all off the counts. A leaf that
// waits for nothing else gets what has come to it.
void ForgetDeadEdges(torch::autograd::Node& node);
// `node` has computed its gradients: the engine goes along all its edges now.
void RecallDeadEdges(const torch::autograd::Node& node);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_DEAD_EDGES_H_
