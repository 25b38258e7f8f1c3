// What the rest of the project uses of CPython's private C API, each piece under a name that says what it does.
// The functions that guard checks call hundreds of times are inline where CPython's public headers declare them.
// Invariant: no other file outside of versions/ names anything private of CPython's, so that a new Python version
// breaks the build here and nowhere else (`./dev lint`). Results follow CPython's: null or false with an error set.
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_PRIVATE_API_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_PRIVATE_API_H_

#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "frame_eval/ref.h"

namespace framefuse::private_api {

// ---- dicts
Ref NewDict(std::size_t expected_size);
// Value of `key`, borrowed; null without an error where it is absent. `hash` must be the key's.
inline PyObject* DictGet(PyObject* dict, PyObject* key, Py_hash_t hash) {
  return _PyDict_GetItem_KnownHash(dict, key, hash);
}
bool DictSet(PyObject* dict, PyObject* key, PyObject* value, Py_hash_t hash);
// The next item with the hash that the dict keeps of its key, all borrowed; like PyDict_Next runs no code.
#if PY_VERSION_HEX < 0x030D0000
inline bool DictNext(PyObject* dict, Py_ssize_t* position, PyObject** key, PyObject** value, Py_hash_t* hash) {
  return _PyDict_Next(dict, position, key, value, hash) != 0;
}
#else
bool DictNext(PyObject* dict, Py_ssize_t* position, PyObject** key, PyObject** value, Py_hash_t* hash);
#endif
// Adds the items of `mapping`; a key that `dict` has already is a KeyError, which TakeRepeatedKey tells apart.
bool DictMergeNew(PyObject* dict, PyObject* mapping);
BorrowedRef DictOfView(PyObject* view);  // of keys(), values() or items()
bool IsView(PyObject* object);           // one of these, or a read-only proxy of a mapping
BorrowedRef ViewedBy(PyObject* view);    // of such
Ref MakerOfView(PyTypeObject* type);     // what makes one of that type of a dict

// What a weak reference refers to, borrowed; None where that is gone. 3.13 deprecates the borrowing, not the fact.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
inline PyObject* Referent(PyObject* weak_reference) { return PyWeakref_GET_OBJECT(weak_reference); }
#pragma GCC diagnostic pop

// ---- other containers and text
// A tuple, or an instance of a class of tuples, whose items are to be set. Null: MemoryError.
Ref NewTuple(PyTypeObject* type, Py_ssize_t size);
bool SetNext(PyObject* set, Py_ssize_t* position, PyObject** element);  // borrowed, in table order
bool SetUpdate(PyObject* set, PyObject* iterable);
// Where a set's elements stand in its table, with what was discarded: what order later additions give depends on it.
bool SameSetLayout(PyObject* a, PyObject* b);
// An exact set or frozenset with the layout of `set`; its elements, in table order, are those of the tuple.
Ref CopySetLayout(PyObject* set, PyObject* elements);
// `set` gets the layout and the elements of `other`, which gets those of `set`: two exact sets.
void SwapSets(PyObject* set, PyObject* other);
bool ListExtend(PyObject* list, PyObject* iterable);
Ref JoinStrings(PyObject* separator, PyObject* const* parts, std::size_t count);
std::size_t BitCount(PyObject* integer);
// An int that is no other object, also where CPython keeps one of each value.
Ref NewOwnInteger(std::int64_t value);

// ---- types, attributes, callables
PyTypeObject* MethodWrapperType();       // of `(1).__add__`
bool MatchesItself(PyTypeObject* type);  // in a class pattern with one positional part
// The attribute; *is_unbound: a function that is still to be given the owner as its first argument.
Ref GetMethod(PyObject* owner, PyObject* name, bool* is_unbound);
PyObject* TypeParameters(PyObject* function);  // borrowed; null before 3.12, which has none
// Where a function keeps what SET_FUNCTION_ATTRIBUTE's `flag` names; null: this Python has no such part.
inline constexpr int kAnnotateFlag = 16;  // the function that computes the annotations, from 3.14 on
PyObject** FunctionPart(PyObject* function, int flag);
bool SetFunctionPart(PyObject* function, int flag, PyObject* part);  // as that instruction does
Ref CallableText(PyObject* callable);  // "module.qualname()", as messages of the evaluator's name it

// ---- errors
// Raises `type`, with the current error as cause and context.
void RaiseFromCurrent(PyObject* type, PyObject* message);

}  // namespace framefuse::private_api

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_PRIVATE_API_H_
