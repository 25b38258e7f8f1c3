// descriptors: what the attribute protocol asks of what it finds on a type, and its error.
// Invariant: nothing here runs user code.
#ifndef FRAMEFUSE_SYMBOLIC_CAPTURE_DESCRIPTORS_H_
#define FRAMEFUSE_SYMBOLIC_CAPTURE_DESCRIPTORS_H_

#include "symbolic/evaluator/value.h"

namespace framefuse {

inline bool IsPythonFunction(BorrowedRef o) { return o && PyFunction_Check(o.get()); }
inline bool IsDataDescriptor(BorrowedRef d) { return d && d.type()->tp_descr_set != nullptr; }
// Sets AttributeError with CPython's text, name and obj; always null.
Value AttributeError(BorrowedRef object, BorrowedRef name);
// What the AttributeError that is set tells of itself, where Python says it: on reads, not on deletions.
void SetMissingAttribute(BorrowedRef object, BorrowedRef name);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CAPTURE_DESCRIPTORS_H_
