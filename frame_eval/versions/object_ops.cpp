#include "frame_eval/versions/object_ops.h"

#include "frame_eval/versions/frame_ops.h"

namespace framefuse::frame_ops {
namespace {

bool SameString(PyObject* a, PyObject* b) {
  return a == b || (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b) && PyUnicode_Compare(a, b) == 0);
}

}  // namespace

PyObject** DictSlot(PyObject* object) {
  Py_ssize_t offset = Py_TYPE(object)->tp_dictoffset;
  if (offset == 0) return nullptr;
  if (offset < 0) {
    // Counted from the end of a variable-sized object.
    Py_ssize_t items = Py_SIZE(object);
    if (items < 0) items = -items;
    offset += static_cast<Py_ssize_t>(_PyObject_VAR_SIZE(Py_TYPE(object), items));
  }
  return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

Py_ssize_t SharedKeyIndex(PyDictKeysObject* keys, PyObject* name) {
  const PyDictUnicodeEntry* entries = DK_UNICODE_ENTRIES(keys);
  const Py_ssize_t count = keys->dk_nentries;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (entries[i].me_key == name) return i;
  }
  if (PyUnicode_CHECK_INTERNED(name)) return -1;  // shared keys are interned
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (entries[i].me_key != nullptr && SameString(entries[i].me_key, name)) return i;
  }
  return -1;
}

bool NextInlineValue(PyDictKeysObject* keys, PyObject* const* values, const std::uint8_t* order, int step,
                     Py_ssize_t count, Py_ssize_t* position, PyObject** name, PyObject** value) {
  if (*position >= count) return false;
  const std::uint8_t index = order[*position * step];
  ++*position;
  *name = DK_UNICODE_ENTRIES(keys)[index].me_key;
  *value = values[index];
  return true;
}

#if PY_VERSION_HEX < 0x030D0000
bool NextOfValues(PyTypeObject* type, const PyDictValues* values, Py_ssize_t* position, PyObject** name,
                  PyObject** value) {
  const auto* end = reinterpret_cast<const std::uint8_t*>(values);  // downwards: the capacity, the number, the order
  return NextInlineValue(reinterpret_cast<PyHeapTypeObject*>(type)->ht_cached_keys, values->values, end - 3, -1,
                         end[-2], position, name, value);
}
#endif

PyObject* DictItem(PyObject* dict, PyObject* name) {
  if (dict == nullptr) return nullptr;
  if (DK_IS_UNICODE(reinterpret_cast<PyDictObject*>(dict)->ma_keys)) {
    const Py_hash_t hash = PyObject_Hash(name);
    return _PyDict_GetItem_KnownHash(dict, name, hash);
  }
  // Other kinds of keys may have an __eq__ of their own, so look-up is not for us.
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &key, &value)) {
    if (SameString(key, name)) return value;
  }
  return nullptr;
}

bool HasInstanceAttrs(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0 || type->tp_dictoffset != 0;
}

bool SharesKeys(PyObject* dict) { return reinterpret_cast<PyDictObject*>(dict)->ma_values != nullptr; }

namespace {
bool HasVersion(PyTypeObject* type) {
#if PY_VERSION_HEX >= 0x030D0000
  return type->tp_version_tag != 0;
#else
  return (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) != 0;
#endif
}
}  // namespace

std::uint32_t TypeVersion(PyTypeObject* type) {
  if (!HasVersion(type)) {
    // Looking up a short interned name assigns a tag where one can be had.
    static PyObject* const name = PyUnicode_InternFromString("__class__");
    _PyType_Lookup(type, name);
    if (!HasVersion(type)) return 0;
  }
  return type->tp_version_tag;
}

void SetEmptySlotError(PyObject* object, PyObject* name) {
#if PY_VERSION_HEX >= 0x030D0000
  PyErr_Format(PyExc_AttributeError, "'%T' object has no attribute '%U'", object, name);
#else
  PyErr_Format(PyExc_AttributeError, "'%.200s' object has no attribute '%U'", Py_TYPE(object)->tp_name, name);
#endif
}

PyObject* TypeLookup(PyTypeObject* type, PyObject* name) { return _PyType_Lookup(type, name); }

PyObject* TypeDict(PyTypeObject* type) {
#if PY_VERSION_HEX >= 0x030C0000
  PyObject* dict = PyType_GetDict(type);
  Py_XDECREF(dict);  // the type keeps it
  return dict;
#else
  return type->tp_dict;
#endif
}

bool SetRawInstanceAttr(PyObject* object, PyObject* name, PyObject* value) {
  PyObject* descriptor = TypeLookup(Py_TYPE(object), name);
  if (descriptor == nullptr || Py_TYPE(descriptor)->tp_descr_set == nullptr) {
    return PyObject_GenericSetAttr(object, name, value) == 0;
  }
  Ref dict = Ref::Steal(PyObject_GenericGetDict(object, nullptr));
  if (!dict) return false;
  if (value != nullptr) return PyDict_SetItem(dict, name, value) == 0;
  if (PyDict_DelItem(dict, name) == 0) return true;
  if (PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_SetObject(PyExc_AttributeError, name);
  return false;
}

#undef _PyObject_LookupSpecial
Ref LookupSpecial(PyObject* object, PyObject* name) { return Ref::Steal(_PyObject_LookupSpecial(object, name)); }

}  // namespace framefuse::frame_ops
