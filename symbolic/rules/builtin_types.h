// builtin_types: C types of the standard library that capture knows by identity.
// Invariant: resolved once, when the package is imported, never in the middle of a capture; kept alive for ever.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_BUILTIN_TYPES_H_
#define FRAMEFUSE_SYMBOLIC_RULES_BUILTIN_TYPES_H_

#include <Python.h>

#include "frame_eval/ref.h"

namespace framefuse {

PyTypeObject* DequeType();
PyTypeObject* DefaultDictType();
bool IsDefaultDict(BorrowedRef object);  // also of a Python class
PyObject* FactorySlot();                 // the member descriptor of a defaultdict's default_factory
PyTypeObject* PartialType();
PyTypeObject* LruCacheType();
PyTypeObject* ItemGetterType();
PyTypeObject* EnumType();
// A Python class derived from int, float or str: what an object of it is to C code never changes.
bool IsNumberOrTextClass(PyTypeObject* type);
PyTypeObject* MethodCallerType();
bool IsRegularExpression(BorrowedRef object);  // that depends on nothing else, as one on the locale does
PyTypeObject* AutogradEngineType();
PyTypeObject* TorchFunctionsType();  // of torch._C._VariableFunctions: immutable, its attributes are C functions
PyTypeObject* AttrGetterType();
// Python functions that stand for others (framefuse/_stand_ins.py).
enum class StandIn : std::uint8_t { kAttributes, kMethod, kDispatched };
BorrowedRef FunctionOf(StandIn which);
PyTypeObject* KeyWrapperType();  // what functools.cmp_to_key returns
PyTypeObject* SimpleNamespaceType();
PyTypeObject* TupleGetterType();              // the descriptor of a namedtuple's field
bool IsHashedByIdentity(PyTypeObject* type);  // and compared, without Python code
// Made by a class statement (or type()): instances hold Python attributes and slots on top of what NativeBase has.
// Heap types of C modules are none: their state is their own.
bool IsPythonClass(PyTypeObject* type);
PyTypeObject* NativeBase(PyTypeObject* type);  // the nearest base, or the type itself, that is no Python class
// Of an exact range, or a slice of immutable parts, its value is all there is but its identity.
bool IsRangeOrSlice(BorrowedRef object);
bool IsGeneric(PyTypeObject* type);  // typing.Generic itself
bool IsUnion(BorrowedRef object);    // int | None: it does not change
// Of template strings, from 3.14 on: the string, what is put into it, an iterator over both.
bool IsTemplate(BorrowedRef object);
bool IsInterpolation(BorrowedRef object);
bool IsTemplateIterator(BorrowedRef object);
bool IsStructSequenceType(PyTypeObject* type);  // a C named tuple: hidden fields lie behind the visible ones
// object.name(argument). PyObject_CallMethod with "O" would spread a tuple over several arguments.
Ref CallMethodWith(BorrowedRef object, const char* name, BorrowedRef argument);
void LoadBuiltinTypes();

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_BUILTIN_TYPES_H_
