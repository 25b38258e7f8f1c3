// Saved elements: a second derivative computes a graph's values again, to get their histories. What the first pass
// reads of them has been saved, as by eager's nodes, and an input that no node of eager's has saved may have been
// written since, counted or not. So each value that is computed again gets the elements that were saved of it.
// Invariant: histories are what they were; what gradients depend on is what was saved.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_SAVED_ELEMENTS_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_SAVED_ELEMENTS_H_

#include <vector>

#include "absl/types/span.h"
#include "backends/graph/graph.h"

namespace framefuse {

// For each of `values` that a node of the forward computes, a new value of the joint graph that nothing computes: its
// elements, as they were saved. kNoValue for others. `watch`: what of the rest is computed from inputs whose elements
// are gone is noted when it runs (UnknownValues).
std::vector<ir::ValueId> GiveElements(ir::Graph& joint, absl::Span<const ir::ValueId> values, bool watch);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_SAVED_ELEMENTS_H_
