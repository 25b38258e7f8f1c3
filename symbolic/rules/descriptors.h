// descriptors: what the attribute protocol asks of what it finds on a type, and its error.
// Invariant: nothing here runs user code.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_DESCRIPTORS_H_
#define FRAMEFUSE_SYMBOLIC_RULES_DESCRIPTORS_H_

#include "symbolic/evaluator/value.h"

namespace framefuse {

inline bool IsPythonFunction(BorrowedRef o) { return o && PyFunction_Check(o.get()); }
// Of what a class has under the name of a special method: that of its native base. dict.__setitem__ under the name
// __setattr__ is none.
bool IsNativeDefault(BorrowedRef method, BorrowedRef name);
// A class's __getattribute__ looks where all objects have their attributes, and at a module's own hook. Not that of
// threading.local, say, whose objects have others in each thread.
bool ReadsGenerically(BorrowedRef getattribute);
inline bool IsDataDescriptor(BorrowedRef d) { return d && d.type()->tp_descr_set != nullptr; }
// The function of a property, as property has it, whatever a derived class has.
Ref GetterOf(BorrowedRef property);
// Sets AttributeError with CPython's text, name and obj; always null.
Value AttributeError(BorrowedRef object, BorrowedRef name);
// What the AttributeError that is set tells of itself, where Python says it: on reads, not on deletions.
void SetMissingAttribute(BorrowedRef object, BorrowedRef name);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_DESCRIPTORS_H_
