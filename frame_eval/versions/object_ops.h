// Raw reads of dictionaries and instance attributes that the versions share: no descriptors, no materialised
// dictionaries, no user code. Results are borrowed.
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_OBJECT_OPS_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_OBJECT_OPS_H_

#include <cstdint>

#include "frame_eval/versions/internal.h"

namespace framefuse::frame_ops {

// Where an object of a type with a plain dictoffset keeps its dict; null if it can have none. Not for managed dicts.
PyObject** DictSlot(PyObject* object);
// Index of the str `name` in a shared-keys table of inline values, or -1.
Py_ssize_t SharedKeyIndex(PyDictKeysObject* keys, PyObject* name);
// Number *position of the values that lie in an object, by the order in which they were set: `order` gives the index of
// each, a byte each, `step` bytes apart.
bool NextInlineValue(PyDictKeysObject* keys, PyObject* const* values, const std::uint8_t* order, int step,
                     Py_ssize_t count, Py_ssize_t* position, PyObject** name, PyObject** value);
#if PY_VERSION_HEX < 0x030D0000
// The same of the values of an object of `type`, before which their number and their order lie.
bool NextOfValues(PyTypeObject* type, const PyDictValues* values, Py_ssize_t* position, PyObject** name,
                  PyObject** value);
#endif
// Value of the str key `name`; null if absent or `dict` is null. Compares exact strings only.
PyObject* DictItem(PyObject* dict, PyObject* name);

}  // namespace framefuse::frame_ops

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_OBJECT_OPS_H_
