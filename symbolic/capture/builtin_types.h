// builtin_types: C types of the standard library that capture knows by identity.
// Invariant: resolved once, when the package is imported, never in the middle of a capture; kept alive for ever.
#ifndef FRAMEFUSE_SYMBOLIC_CAPTURE_BUILTIN_TYPES_H_
#define FRAMEFUSE_SYMBOLIC_CAPTURE_BUILTIN_TYPES_H_

#include <Python.h>

namespace framefuse {

PyTypeObject* DequeType();
PyTypeObject* DefaultDictType();
PyTypeObject* PartialType();
PyTypeObject* LruCacheType();
bool IsStructSequenceType(PyTypeObject* type);  // a C named tuple: hidden fields lie behind the visible ones
void LoadBuiltinTypes();

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CAPTURE_BUILTIN_TYPES_H_
