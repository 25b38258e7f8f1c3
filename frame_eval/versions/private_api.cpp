#include "frame_eval/versions/internal.h"
// internal.h first: it changes what Python.h declares.
#include "frame_eval/versions/private_api.h"

#if PY_VERSION_HEX >= 0x030D0000
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
extern "C" {
#include "internal/pycore_list.h"
#include "internal/pycore_pyerrors.h"
#include "internal/pycore_setobject.h"
#include "internal/pycore_unicodeobject.h"
}
#pragma GCC diagnostic pop
#endif

namespace framefuse::private_api {

Ref NewDict(std::size_t expected_size) {
  return Ref::Steal(_PyDict_NewPresized(static_cast<Py_ssize_t>(expected_size)));
}

bool DictSet(PyObject* dict, PyObject* key, PyObject* value, Py_hash_t hash) {
  return _PyDict_SetItem_KnownHash(dict, key, value, hash) == 0;
}

#if PY_VERSION_HEX >= 0x030D0000
bool DictNext(PyObject* dict, Py_ssize_t* position, PyObject** key, PyObject** value, Py_hash_t* hash) {
  if (PyDict_Next(dict, position, key, value) == 0) return false;
  PyDictKeysObject* keys = reinterpret_cast<PyDictObject*>(dict)->ma_keys;
  // A table of strings has no room for hashes: the strings keep their own. Elsewhere the position is the index of the
  // next entry, since only tables of strings are ever split.
  *hash = DK_IS_UNICODE(keys) ? reinterpret_cast<PyASCIIObject*>(*key)->hash : DK_ENTRIES(keys)[*position - 1].me_hash;
  return true;
}
#endif

bool DictMergeNew(PyObject* dict, PyObject* mapping) {
  constexpr int kErrorOnRepeatedKey = 2;
  return _PyDict_MergeEx(dict, mapping, kErrorOnRepeatedKey) == 0;
}

BorrowedRef DictOfView(PyObject* view) {
  return reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(view)->dv_dict);
}

namespace {
// As Objects/descrobject.c has it, in all versions.
struct MappingProxy {
  PyObject_HEAD PyObject* mapping;
};
bool IsViewOfDict(PyTypeObject* type) {
  return type == &PyDictKeys_Type || type == &PyDictValues_Type || type == &PyDictItems_Type ||
         type == &PyODictKeys_Type || type == &PyODictValues_Type || type == &PyODictItems_Type;
}
}  // namespace

bool IsView(PyObject* object) { return Py_IS_TYPE(object, &PyDictProxy_Type) || IsViewOfDict(Py_TYPE(object)); }

BorrowedRef ViewedBy(PyObject* view) {
  return Py_IS_TYPE(view, &PyDictProxy_Type) ? reinterpret_cast<MappingProxy*>(view)->mapping : DictOfView(view).get();
}

Ref MakerOfView(PyTypeObject* type) {
  if (type == &PyDictProxy_Type) return Ref::Create(reinterpret_cast<PyObject*>(type));
  const bool ordered = type == &PyODictKeys_Type || type == &PyODictValues_Type || type == &PyODictItems_Type;
  const bool keys = type == &PyDictKeys_Type || type == &PyODictKeys_Type;
  const bool values = type == &PyDictValues_Type || type == &PyODictValues_Type;
  auto* owner = reinterpret_cast<PyObject*>(ordered ? &PyODict_Type : &PyDict_Type);
  return Ref::Steal(PyObject_GetAttrString(owner, keys ? "keys" : values ? "values" : "items"));
}

Ref NewTuple(PyTypeObject* type, Py_ssize_t size) {
  if (type == &PyTuple_Type) return Ref::Steal(PyTuple_New(size));
  Ref tuple = Ref::Steal(type->tp_alloc(type, size));
#if PY_VERSION_HEX >= 0x030E0000
  if (tuple) reinterpret_cast<PyTupleObject*>(tuple.get())->ob_hash = -1;  // not known yet
#endif
  return tuple;
}

bool SetNext(PyObject* set, Py_ssize_t* position, PyObject** element) {
  Py_hash_t hash = 0;
  return _PySet_NextEntry(set, position, element, &hash) != 0;
}

#if PY_VERSION_HEX < 0x030C0000
PyObject* TypeParameters(PyObject*) { return nullptr; }
#else
PyObject* TypeParameters(PyObject* function) {
  static PyObject* const none = PyTuple_New(0);
  PyObject* parameters = reinterpret_cast<PyFunctionObject*>(function)->func_typeparams;
  return parameters != nullptr ? parameters : none;
}
#endif

PyObject** FunctionPart(PyObject* object, int flag) {
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  switch (flag) {
    case 1:
      return &function->func_defaults;
    case 2:
      return &function->func_kwdefaults;
    case 4:
      return &function->func_annotations;
    case 8:
      return &function->func_closure;
#if PY_VERSION_HEX >= 0x030E0000
    case kAnnotateFlag:
      return &function->func_annotate;
#endif
    default:
      return nullptr;
  }
}

bool SetFunctionPart(PyObject* function, int flag, PyObject* part) {
  PyObject** field = FunctionPart(function, flag);
  if (field == nullptr) {
    PyErr_Format(PyExc_SystemError, "framefuse: a function has no part %d", flag);
    return false;
  }
  if (flag == kAnnotateFlag && PyFunction_Check(part)) {
    PyObject* name = reinterpret_cast<PyFunctionObject*>(function)->func_qualname;
    PyObject* qualified = PyUnicode_FromFormat("%U.__annotate__", name);
    if (qualified == nullptr) return false;
    Py_XSETREF(reinterpret_cast<PyFunctionObject*>(part)->func_qualname, qualified);
  }
  Py_XSETREF(*field, Py_NewRef(part));
  return true;
}

bool SetUpdate(PyObject* set, PyObject* iterable) { return _PySet_Update(set, iterable) == 0; }

namespace {

PySetObject* AsSet(PyObject* set) { return reinterpret_cast<PySetObject*>(set); }
bool IsDiscarded(const setentry& entry) { return entry.key != nullptr && entry.hash == -1; }

// Its few first elements stand in the object itself.
setentry* MakeTable(PySetObject* set, const PySetObject* like) {
  if (like->table == like->smalltable) return set->smalltable;
  return PyMem_New(setentry, static_cast<std::size_t>(like->mask) + 1);
}

}  // namespace

bool SameSetLayout(PyObject* first, PyObject* second) {
  const PySetObject *a = AsSet(first), *b = AsSet(second);
  if (a->mask != b->mask || a->fill != b->fill || a->used != b->used || a->finger != b->finger) return false;
  for (Py_ssize_t i = 0; i <= a->mask; ++i) {
    const setentry &x = a->table[i], &y = b->table[i];
    if ((x.key == nullptr) != (y.key == nullptr) || x.hash != y.hash) return false;
  }
  return true;
}

Ref CopySetLayout(PyObject* set, PyObject* elements) {
  Ref copy = Ref::Steal(PySet_CheckExact(set) ? PySet_New(nullptr) : PyFrozenSet_New(nullptr));
  if (!copy) return copy;
  PySetObject *to = AsSet(copy.get()), *from = AsSet(set);
  setentry* table = MakeTable(to, from);
  if (table == nullptr) return Ref::Steal(PyErr_NoMemory());
  Py_ssize_t next = 0;
  for (Py_ssize_t i = 0; i <= from->mask; ++i) {
    table[i] = from->table[i];
    if (table[i].key == nullptr) continue;
    if (!IsDiscarded(table[i])) table[i].key = PyTuple_GET_ITEM(elements, next++);
    Py_INCREF(table[i].key);
  }
  to->table = table;
  to->mask = from->mask;
  to->fill = from->fill;
  to->used = from->used;
  to->finger = from->finger;
  return copy;
}

void SwapSets(PyObject* first, PyObject* second) {
  PySetObject *a = AsSet(first), *b = AsSet(second);
  const bool a_is_small = a->table == a->smalltable, b_is_small = b->table == b->smalltable;
  std::swap(a->table, b->table);
  std::swap(a->smalltable, b->smalltable);
  std::swap(a->mask, b->mask);
  std::swap(a->fill, b->fill);
  std::swap(a->used, b->used);
  std::swap(a->finger, b->finger);
  if (b_is_small) a->table = a->smalltable;
  if (a_is_small) b->table = b->smalltable;
}

bool ListExtend(PyObject* list, PyObject* iterable) {
  const Ref none = Ref::Steal(_PyList_Extend(reinterpret_cast<PyListObject*>(list), iterable));
  return static_cast<bool>(none);
}

Ref JoinStrings(PyObject* separator, PyObject* const* parts, std::size_t count) {
  return Ref::Steal(_PyUnicode_JoinArray(separator, parts, static_cast<Py_ssize_t>(count)));
}

std::size_t BitCount(PyObject* integer) { return _PyLong_NumBits(integer); }

Ref NewOwnInteger(std::int64_t value) {
  constexpr std::int64_t kMostKept = 256, kLeastKept = -5;
  if (value > kMostKept || value < kLeastKept) return Ref::Steal(PyLong_FromLongLong(value));
// Deprecated in 3.14, but what took its place gives the kept number of such a value.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  PyLongObject* made = _PyLong_New(value == 0 ? 0 : 1);
#pragma GCC diagnostic pop
  if (made == nullptr) return Ref();
  const auto digit = static_cast<unsigned>(value < 0 ? -value : value);
#if PY_VERSION_HEX < 0x030C0000
  made->ob_digit[0] = digit;
  if (value < 0) Py_SET_SIZE(made, -1);
#else
  constexpr std::uintptr_t kSignBits = 3, kNegative = 2;
  made->long_value.ob_digit[0] = digit;
  if (value < 0) made->long_value.lv_tag = (made->long_value.lv_tag & ~kSignBits) | kNegative;
#endif
  return Ref::Steal(reinterpret_cast<PyObject*>(made));
}

PyTypeObject* MethodWrapperType() {
#if PY_VERSION_HEX < 0x030D0000
  return &_PyMethodWrapper_Type;
#else
  // Hidden: asked of an object that has one.
  static PyTypeObject* const type = [] {
    const Ref wrapper = Ref::Steal(PyObject_GetAttrString(Py_None, "__str__"));
    if (!wrapper) PyErr_Clear();
    return wrapper ? Py_TYPE(wrapper.get()) : nullptr;
  }();
  return type;
#endif
}

bool MatchesItself(PyTypeObject* type) { return PyType_HasFeature(type, _Py_TPFLAGS_MATCH_SELF) != 0; }

Ref GetMethod(PyObject* owner, PyObject* name, bool* is_unbound) {
  PyObject* method = nullptr;
  *is_unbound = _PyObject_GetMethod(owner, name, &method) != 0;
  return Ref::Steal(method);
}

Ref CallableText(PyObject* callable) { return Ref::Steal(_PyObject_FunctionStr(callable)); }

void RaiseFromCurrent(PyObject* type, PyObject* message) { _PyErr_FormatFromCause(type, "%U", message); }

}  // namespace framefuse::private_api
