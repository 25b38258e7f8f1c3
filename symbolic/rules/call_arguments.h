// The arguments of a call as a vectorcall has them: positional ones, then keyword values named by a tuple.
// Invariant: `kwnames` is null or names the last values of the span. Views: the caller owns the values.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_CALL_ARGUMENTS_H_
#define FRAMEFUSE_SYMBOLIC_RULES_CALL_ARGUMENTS_H_

#include <cstddef>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "symbolic/evaluator/protocols.h"

namespace framefuse {

using ValueVector = absl::InlinedVector<ValueView, 8>;

inline std::size_t PositionalCount(absl::Span<const ValueView> args, BorrowedRef kwnames) {
  return args.size() - (kwnames ? static_cast<std::size_t>(PyTuple_GET_SIZE(kwnames.get())) : 0);
}

ValueVector WithFirst(ValueView first, absl::Span<const ValueView> args);
// As PyObject_Vectorcall.
PyObject* Vectorcall(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames);

// Whether a torch leaf function may be given it: nothing whose attributes it could read unseen.
bool IsPlainArgument(BorrowedRef o);
// Whether the function is what calls a function of the program under a transform of torch.func, and can be captured.
bool IsTransformation(BorrowedRef function, absl::Span<const ValueView> args);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_CALL_ARGUMENTS_H_
