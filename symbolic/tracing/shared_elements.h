// Whether two tensors of one storage have an element in common. An operator that writes one of them and reads the other
// does so in an order of its own, so that what a program without writes computes is not what eager does.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_SHARED_ELEMENTS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_SHARED_ELEMENTS_H_

#include "backends/graph/graph.h"

namespace framefuse::tracing {

// Of values of one storage. False where one has the other's geometry: element meets element. Symbols stand at their
// hints; elements of another size are taken to be nowhere else.
bool ShareElementsOutOfStep(const ir::ExprTable& exprs, const ir::Value& a, const ir::Value& b);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_SHARED_ELEMENTS_H_
