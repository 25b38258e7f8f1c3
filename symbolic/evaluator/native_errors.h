// The errors that CPython's evaluator itself raises, with its texts and attributes.
#ifndef FRAMEFUSE_SYMBOLIC_EVALUATOR_NATIVE_ERRORS_H_
#define FRAMEFUSE_SYMBOLIC_EVALUATOR_NATIVE_ERRORS_H_

#include "frame_eval/ref.h"

namespace framefuse {

// NameError with its `name` attribute, from which suggestions are made.
void SetNameError(BorrowedRef name);
void SetUnboundLocalError(BorrowedRef name);
// The cell in `slot` is empty.
void SetUnboundCellError(PyCodeObject* code, int slot);
// `exception`, or the RuntimeError that a StopIteration escaping from a generator's body becomes (PEP 479).
Ref ConvertStopIteration(int code_flags, BorrowedRef exception);
// The current error says that `kwargs` of a call f(**a, **kwargs) is no mapping or repeats a name: CPython's text.
void ImproveKwargsError(BorrowedRef callable, BorrowedRef kwargs);
void SetAwaitableError(PyTypeObject* type, int get_awaitable_arg);
// Whether `type` may stand in `except type:`; false with TypeError set.
bool CheckExceptType(BorrowedRef type);
bool CheckExceptStarType(BorrowedRef type);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EVALUATOR_NATIVE_ERRORS_H_
