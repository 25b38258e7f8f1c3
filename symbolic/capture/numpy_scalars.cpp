#include "symbolic/capture/numpy_scalars.h"

#include <cstring>

#include "frame_eval/hook.h"
#include "guards/immutable.h"
#include "symbolic/capture/tracked.h"

namespace framefuse {
namespace {

// torch imports it where it is installed.
PyObject* Numpy() { return PyDict_GetItemString(PyImport_GetModuleDict(), "numpy"); }

}  // namespace

void RegisterNumpyLeafTypes() {
  if (Numpy() == nullptr) return;
  for (const char* name : {"bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                           "longlong", "ulonglong", "float16", "float32", "float64"}) {
    PyObject* type = PyObject_GetAttrString(Numpy(), name);
    if (type == nullptr) {
      PyErr_Clear();
    } else if (PyType_Check(type)) {
      AddLeafType(reinterpret_cast<PyTypeObject*>(type));
      AddNumberType(reinterpret_cast<PyTypeObject*>(type));
    }
  }
}

bool IsNumpyNumberType(PyTypeObject* type) {
  return std::strncmp(type->tp_name, "numpy.", 6) == 0 && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0;
}

bool IsNumberForNumpy(BorrowedRef object) {
  PyObject* o = object;
  if (PyTuple_Check(o) || PyList_CheckExact(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      if (!IsNumberForNumpy(PySequence_Fast_GET_ITEM(o, i))) return false;
    }
    return true;
  }
  return o == Py_None || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyBool_Check(o) || PyType_Check(o) ||
         (IsLeaf(object) && IsNumpyNumberType(object.type()));
}

bool HoldsNumpyNumber(BorrowedRef object, int depth) {
  constexpr int kMaxDepth = 8;
  PyObject* o = object;
  if (IsNumpyNumberType(object.type())) return IsLeaf(object);
  if (PyTuple_Check(o) || PyList_CheckExact(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      if (depth >= kMaxDepth || HoldsNumpyNumber(PySequence_Fast_GET_ITEM(o, i), depth + 1)) return true;
    }
  } else if (PyDict_Check(o)) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(o, &position, &key, &value)) {
      if (depth >= kMaxDepth || HoldsNumpyNumber(key, depth + 1) || HoldsNumpyNumber(value, depth + 1)) return true;
    }
  }
  return false;
}

NumpyErrors::~NumpyErrors() {
  if (!before_) return;
  const HookScope off(HookMode::kOff);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const Ref seterr = Ref::Steal(PyObject_GetAttrString(Numpy(), "seterr"));
  const Ref none = Ref::Steal(PyTuple_New(0));
  const Ref done = seterr ? Ref::Steal(PyObject_Call(seterr, none, before_)) : Ref();
  if (!done) PyErr_Clear();
  PyErr_Restore(type, value, traceback);
}

void NumpyErrors::Raise() {
  if (before_ || Numpy() == nullptr) return;
  const HookScope off(HookMode::kOff);
  const Ref seterr = Ref::Steal(PyObject_GetAttrString(Numpy(), "seterr"));
  if (seterr) before_ = Ref::Steal(PyObject_CallFunction(seterr, "s", "raise"));
  if (!before_) PyErr_Clear();
}

bool NumpyErrors::Raised() const {
  return before_ && PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_FloatingPointError) != 0;
}

}  // namespace framefuse
