// NativeProtocols: `match`, `except`, `raise`.
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/private_api.h"
#include "symbolic/evaluator/native_errors.h"
#include "symbolic/evaluator/native_protocols.h"

namespace framefuse {
namespace {

Value Fresh(PyObject* owned) { return {Ref::Steal(owned), kNoSource}; }
Value Lent(PyObject* borrowed) { return {Ref::Create(borrowed), kNoSource}; }
Truth TruthOf(int c_result) { return static_cast<Truth>(c_result < 0 ? -1 : c_result != 0); }
const char* TypeName(BorrowedRef type) { return reinterpret_cast<PyTypeObject*>(type.get())->tp_name; }

// Adds to `seen`; false where the key was in it, or on error.
bool AddUnseen(PyObject* seen, PyObject* key) { return PySet_Contains(seen, key) == 0 && PySet_Add(seen, key) == 0; }

// An attribute that a class pattern names; null without an error: no match.
Ref MatchAttribute(BorrowedRef subject, BorrowedRef cls, PyObject* name, PyObject* seen) {
  if (!AddUnseen(seen, name)) {
    if (PyErr_Occurred() == nullptr) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple sub-patterns for attribute %R", TypeName(cls), name);
    }
    return nullptr;
  }
  Ref value = Ref::Steal(PyObject_GetAttr(subject, name));
  if (!value && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
  return value;
}

bool MatchPositional(BorrowedRef subject, BorrowedRef cls, int count, PyObject* seen, PyObject* values) {
  Ref names = Ref::Steal(PyObject_GetAttrString(cls, "__match_args__"));
  bool match_self = false;
  if (names) {
    if (!PyTuple_CheckExact(names.get())) {
      PyErr_Format(PyExc_TypeError, "%s.__match_args__ must be a tuple (got %s)", TypeName(cls), names.type()->tp_name);
      return false;
    }
  } else if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    names = Ref::Steal(PyTuple_New(0));
    match_self = private_api::MatchesItself(reinterpret_cast<PyTypeObject*>(cls.get()));
  }
  if (!names) return false;
  const Py_ssize_t allowed = match_self ? 1 : PyTuple_GET_SIZE(names.get());
  if (allowed < count) {
    PyErr_Format(PyExc_TypeError, "%s() accepts %zd positional sub-pattern%s (%d given)", TypeName(cls), allowed,
                 allowed == 1 ? "" : "s", count);
    return false;
  }
  if (match_self) return PyList_Append(values, subject) == 0;
  for (int i = 0; i < count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names.get(), i);
    if (!PyUnicode_CheckExact(name)) {
      PyErr_Format(PyExc_TypeError, "__match_args__ elements must be strings (got %s)", Py_TYPE(name)->tp_name);
      return false;
    }
    const Ref value = MatchAttribute(subject, cls, name, seen);
    if (!value || PyList_Append(values, value) != 0) return false;
  }
  return true;
}

void SetNoExceptionError(BorrowedRef called, PyTypeObject* made) {
  PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", called.get(),
               made);
}

// The values of a class pattern; null: no match, or an error.
Ref MatchClassValues(BorrowedRef subject, BorrowedRef cls, int positional, BorrowedRef names) {
  if (!PyType_Check(cls.get())) {
    PyErr_SetString(PyExc_TypeError, "called match pattern must be a class");
    return nullptr;
  }
  if (PyObject_IsInstance(subject, cls) <= 0) return nullptr;
  const Ref seen = Ref::Steal(PySet_New(nullptr));
  const Ref values = Ref::Steal(PyList_New(0));
  if (!seen || !values) return nullptr;
  if (positional != 0 && !MatchPositional(subject, cls, positional, seen, values)) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
    const Ref value = MatchAttribute(subject, cls, PyTuple_GET_ITEM(names.get(), i), seen);
    if (!value || PyList_Append(values, value) != 0) return nullptr;
  }
  return Ref::Steal(PyList_AsTuple(values));
}

}  // namespace

Value NativeProtocols::GetLength(Activation&, ValueView v) {
  const Py_ssize_t length = PyObject_Length(v.object);
  return length < 0 ? Value() : Fresh(PyLong_FromSsize_t(length));
}

Truth NativeProtocols::MatchMapping(Activation&, ValueView v) {
  return TruthOf((v.object.type()->tp_flags & Py_TPFLAGS_MAPPING) != 0);
}

Truth NativeProtocols::MatchSequence(Activation&, ValueView v) {
  return TruthOf((v.object.type()->tp_flags & Py_TPFLAGS_SEQUENCE) != 0);
}

Value NativeProtocols::MatchKeys(Activation&, ValueView subject, ValueView keys) {
  const Py_ssize_t count = PyTuple_GET_SIZE(keys.object.get());
  Ref values = Ref::Steal(PyTuple_New(count));
  if (!values || count == 0) return {std::move(values), kNoSource};
  const Ref get = Ref::Steal(PyObject_GetAttrString(subject.object, "get"));
  const Ref seen = Ref::Steal(PySet_New(nullptr));
  const Ref missing = Ref::Steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  if (!get || !seen || !missing) return {};
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys.object.get(), i);
    if (!AddUnseen(seen, key)) {
      if (PyErr_Occurred() == nullptr) {
        PyErr_Format(PyExc_ValueError, "mapping pattern checks duplicate key (%R)", key);
      }
      return {};
    }
    // get() with a default neither raises for, nor creates, a missing key.
    PyObject* value = PyObject_CallFunctionObjArgs(get, key, missing.get(), nullptr);
    if (value == nullptr) return {};
    if (value == missing.get()) {
      Py_DECREF(value);
      return Lent(Py_None);
    }
    PyTuple_SET_ITEM(values.get(), i, value);
  }
  return {std::move(values), kNoSource};
}

Value NativeProtocols::MatchClass(Activation&, ValueView subject, ValueView cls, int positional, ValueView names) {
  Ref values = MatchClassValues(subject.object, cls.object, positional, names.object);
  if (!values && PyErr_Occurred() == nullptr) return Lent(Py_None);
  return {std::move(values), kNoSource};
}

Truth NativeProtocols::ExceptionMatches(Activation&, ValueView exception, ValueView type) {
  if (!CheckExceptType(type.object)) return Truth::kError;
  return TruthOf(PyErr_GivenExceptionMatches(exception.object, type.object));
}

void NativeProtocols::Raise(Activation&, ValueView exception, ValueView cause) {
  PyThreadState* thread = PyThreadState_Get();
  if (!exception.object) {
    Ref handled = Ref::Steal(PyErr_GetHandledException());
    if (handled) {
      frame_ops::RestoreRaised(thread, std::move(handled));
    } else {
      PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
    }
    return;
  }
  Ref type, value;
  if (PyExceptionClass_Check(exception.object.get())) {
    type = Ref::Create(exception.object);
    value = Ref::Steal(PyObject_CallNoArgs(type));
    if (!value) return;
    if (!PyExceptionInstance_Check(value.get())) {
      SetNoExceptionError(type, value.type());
      return;
    }
  } else if (PyExceptionInstance_Check(exception.object.get())) {
    value = Ref::Create(exception.object);
    type = Ref::Create(PyExceptionInstance_Class(value.get()));
  } else {
    PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
    return;
  }
  if (cause.object) {
    Ref fixed;
    if (PyExceptionClass_Check(cause.object.get())) {
      fixed = Ref::Steal(PyObject_CallNoArgs(cause.object));
      if (!fixed) return;
      if (frame_ops::kChecksCalledCause && !PyExceptionInstance_Check(fixed.get())) {
        SetNoExceptionError(cause.object, fixed.type());
        return;
      }
    } else if (PyExceptionInstance_Check(cause.object.get())) {
      fixed = Ref::Create(cause.object);
    } else if (cause.object.get() != Py_None) {
      PyErr_SetString(PyExc_TypeError, "exception causes must derive from BaseException");
      return;
    }
    PyException_SetCause(value, fixed.release());
  }
  PyErr_SetObject(type, value);
}

}  // namespace framefuse
