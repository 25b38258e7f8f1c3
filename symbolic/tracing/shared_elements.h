// Whether two values of one storage have an element in common, by the sizes that they have in the recording: pieces of
// a tensor have none, nor have its even and its odd columns.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_SHARED_ELEMENTS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_SHARED_ELEMENTS_H_

#include <cstdint>

#include "backends/graph/graph.h"

namespace framefuse::tracing {

std::int64_t BytesOf(const ir::Value& v);  // of one element
// True also where the answer would take too long to find.
bool ShareElements(const ir::ExprTable& exprs, const ir::Value& a, const ir::Value& b);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_SHARED_ELEMENTS_H_
