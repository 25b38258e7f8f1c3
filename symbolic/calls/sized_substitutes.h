// sized_substitutes: functions of torch's whose code in C++ takes sizes as plain numbers, and what is called in their
// place where an argument has symbolic ones: the same operators, put together in Python (framefuse/_sized_calls.py).
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_SIZED_SUBSTITUTES_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_SIZED_SUBSTITUTES_H_

#include "absl/types/span.h"
#include "symbolic/evaluator/value.h"
#include "symbolic/journals/size_operations.h"

namespace framefuse {

// Whether products of matrices are recorded without torch's code (symbolic/tracing/sized_products.h).
void ReplaceProducts(bool replace);

bool HasSizedSubstitute(BorrowedRef callable);
// `of_numbers`: only where a number among the arguments is symbolic. Sizes of tensors are nothing to it.
void AddSizedSubstitute(BorrowedRef callable, BorrowedRef replacement, bool of_numbers = false);
// Null: there is none, or no argument is symbolic.
BorrowedRef SizedSubstitute(const SizeOperations& sizes, BorrowedRef callable, absl::Span<const ValueView> args);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_SIZED_SUBSTITUTES_H_
