#include "symbolic/rules/numpy_scalars.h"

#include <cstring>

#include "frame_eval/hook.h"
#include "guards/immutable.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/number_arrays.h"
#include "symbolic/tracing/tracer.h"

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

namespace {

// Its text says nothing of what it refers to, or is made by Python code.
bool HidesItsParts(BorrowedRef object) {
  PyObject* o = object;
  if (PyType_Check(o) || PyModule_Check(o) || PyFunction_Check(o) || PyCode_Check(o) || PyGen_Check(o) ||
      PyFrame_Check(o) || PyCell_Check(o) || tracing::Tracer::IsFake(object)) {
    return true;
  }
  return IsPythonClass(object.type()) && NativeBase(object.type()) == &PyBaseObject_Type;
}

struct Search {
  const Search* outer;  // of the object that holds this one
  PyObject* object;
  int depth;
  bool found;
};

bool IsUnderWay(const Search* search, BorrowedRef object) {
  while (search != nullptr && search->object != object.get()) search = search->outer;
  return search != nullptr;
}

bool MayHold(BorrowedRef object, const Search* outer) {
  constexpr int kMaxDepth = 8;
  const int depth = outer == nullptr ? 0 : outer->depth;
  if (IsTextOrNumber(object)) return false;
  if (IsNumpyNumberType(object.type())) return IsLeaf(object) || IsArray(object);
  const traverseproc traverse = object.type()->tp_traverse;
  if (traverse == nullptr || HidesItsParts(object)) return false;
  if (IsUnderWay(outer, object)) return false;  // what holds itself
  if (depth >= kMaxDepth) return true;
  Search search{outer, object.get(), depth + 1, false};
  if (PyExceptionInstance_Check(object.get())) {  // not its traceback
    return MayHold(reinterpret_cast<PyBaseExceptionObject*>(object.get())->args, &search);
  }
  const auto visit = [](PyObject* part, void* into) {
    auto* s = static_cast<Search*>(into);
    s->found = s->found || MayHold(part, s);
    return s->found ? 1 : 0;
  };
  traverse(object, visit, &search);
  return search.found;
}

}  // namespace

bool MayHoldNumpyNumber(BorrowedRef object) { return MayHold(object, nullptr); }

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
