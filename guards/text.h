// Text of Python objects for explanations and logs, made without running Python code: no __repr__ of a user type.
#ifndef FRAMEFUSE_GUARDS_TEXT_H_
#define FRAMEFUSE_GUARDS_TEXT_H_

#include <string>

#include "frame_eval/ref.h"

namespace framefuse {

// As repr() for immutables; dotted names for types, functions and modules; "<module.Type object>" for the rest.
std::string ReprText(BorrowedRef object);
// A str without quotes; else as ReprText.
std::string PlainText(BorrowedRef object);
// "module.Qualified.Name" of a type.
std::string TypeText(PyTypeObject* type);
// A str that stands for an object which may not be kept: a slot's name, else as ReprText.
Ref TextInsteadOf(BorrowedRef object);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_TEXT_H_
