// sized_call: a call of torch's with symbolic numbers among its arguments.
// Invariant: the only way that such numbers come to torch's functions.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_SIZED_CALL_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_SIZED_CALL_H_

#include "absl/types/span.h"
#include "symbolic/journals/size_operations.h"

namespace framefuse {

// As PyObject_Vectorcall. `args`: as the program has them, `sized`: as torch takes them.
PyObject* CallSized(const tracing::Numbers& numbers, BorrowedRef callable, absl::Span<const ValueView> args,
                    const TorchArguments& sized, BorrowedRef kwnames);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_SIZED_CALL_H_
