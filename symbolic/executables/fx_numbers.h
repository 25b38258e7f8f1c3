// fx_numbers: symbolic numbers of an FX graph. Python gets one as a tree, of which it makes nodes; the check of a graph
// makes them again in a recording of its own.
// Invariant: symbols are known by their number, which is the same in the graph, its entry and the check.
#ifndef FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_NUMBERS_H_
#define FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_NUMBERS_H_

#include <vector>

#include "backends/graph/dim.h"
#include "frame_eval/ref.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

// An int, a float, ("symbol", number), or (operation, tree) or (operation, tree, tree).
Ref TreeOf(const ir::ExprTable& table, ir::Dim d);
Ref TreesOf(const ir::ExprTable& table, const std::vector<ir::Dim>& dims);  // tuple
// Of a Python int or float that stands for a symbolic number; null: it is none.
Ref TreeOfNumber(tracing::Tracer& tracer, BorrowedRef object);
// The number that it stands for in a tracer's recording.
Ref NumberOfTree(tracing::Tracer& tracer, BorrowedRef tree);

// All that `original` relied on about its symbols is relied on in `tracer`, too.
void AssumeFacts(const tracing::Tracer& original, tracing::Tracer& tracer);
// Whether `tracer` relied on nothing else.
bool HasOtherFacts(const tracing::Tracer& original, const tracing::Tracer& tracer);

// Calls it as the capture does: with torch's objects for symbolic numbers, and tensors where an operator takes these.
Ref CallWithNumbers(tracing::Tracer& tracer, BorrowedRef callable, BorrowedRef args, BorrowedRef kwargs);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_NUMBERS_H_
