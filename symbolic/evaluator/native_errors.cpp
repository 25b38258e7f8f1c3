#include "symbolic/evaluator/native_errors.h"

#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/private_api.h"

namespace framefuse {

void SetNameError(BorrowedRef name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return;
  PyErr_Format(PyExc_NameError, "name '%.200s' is not defined", text);
  PyThreadState* thread = PyThreadState_Get();
  Ref error = frame_ops::FetchRaised(thread);
  if (PyErr_GivenExceptionMatches(error, PyExc_NameError) && PyObject_SetAttrString(error, "name", name) != 0) {
    PyErr_Clear();
  }
  frame_ops::RestoreRaised(thread, std::move(error));
}

void SetUnboundLocalError(BorrowedRef name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return;
  PyErr_Format(PyExc_UnboundLocalError, "cannot access local variable '%s' where it is not associated with a value",
               text);
}

void SetUnboundCellError(PyCodeObject* code, int slot) {
  if (PyErr_Occurred() != nullptr) return;
  PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, slot);
  if (slot < frame_ops::SlotCount(code) - code->co_nfreevars) {
    SetUnboundLocalError(name);
    return;
  }
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return;
  PyErr_Format(PyExc_NameError,
               "cannot access free variable '%s' where it is not associated with a value in enclosing scope", text);
  PyThreadState* thread = PyThreadState_Get();
  Ref error = frame_ops::FetchRaised(thread);
  if (PyErr_GivenExceptionMatches(error, PyExc_NameError) && PyObject_SetAttrString(error, "name", name) != 0) {
    PyErr_Clear();
  }
  frame_ops::RestoreRaised(thread, std::move(error));
}

Ref ConvertStopIteration(int code_flags, BorrowedRef exception) {
  const char* text = nullptr;
  if (PyErr_GivenExceptionMatches(exception, PyExc_StopIteration)) {
    text = (code_flags & CO_ASYNC_GENERATOR) != 0 ? "async generator raised StopIteration"
           : (code_flags & CO_COROUTINE) != 0     ? "coroutine raised StopIteration"
                                                  : "generator raised StopIteration";
  } else if ((code_flags & CO_ASYNC_GENERATOR) != 0 &&
             PyErr_GivenExceptionMatches(exception, PyExc_StopAsyncIteration)) {
    text = "async generator raised StopAsyncIteration";
  }
  if (text == nullptr) return Ref::Create(exception);
  Ref message = Ref::Steal(PyUnicode_FromString(text));
  if (!message) return nullptr;
  Ref error = Ref::Steal(PyObject_CallOneArg(PyExc_RuntimeError, message));
  if (!error) return nullptr;
  PyException_SetCause(error, Py_NewRef(exception.get()));
  PyException_SetContext(error, Py_NewRef(exception.get()));
  return error;
}

void ImproveKwargsError(BorrowedRef callable, BorrowedRef kwargs) {
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    // No `keys`: not a mapping.
    PyErr_Clear();
    if (Ref text = private_api::CallableText(callable)) {
      PyErr_Format(PyExc_TypeError, "%U argument after ** must be a mapping, not %.200s", text.get(),
                   kwargs.type()->tp_name);
    }
    return;
  }
  Ref key = frame_ops::TakeRepeatedKey();
  if (!key) return;
  if (Ref text = private_api::CallableText(callable)) {
    PyErr_Format(PyExc_TypeError, "%U got multiple values for keyword argument '%S'", text.get(), key.get());
  }
}

void SetAwaitableError(PyTypeObject* type, int get_awaitable_arg) {
  if (type->tp_as_async != nullptr && type->tp_as_async->am_await != nullptr) return;
  if (get_awaitable_arg == 1) {
    PyErr_Format(PyExc_TypeError,
                 "'async with' received an object from __aenter__ that does not implement __await__: %.100s",
                 type->tp_name);
  } else if (get_awaitable_arg == 2) {
    PyErr_Format(PyExc_TypeError,
                 "'async with' received an object from __aexit__ that does not implement __await__: %.100s",
                 type->tp_name);
  }
}

bool CheckExceptType(BorrowedRef type) {
  constexpr const char* kText = "catching classes that do not inherit from BaseException is not allowed";
  if (PyTuple_Check(type.get())) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type.get()); ++i) {
      if (!PyExceptionClass_Check(PyTuple_GET_ITEM(type.get(), i))) {
        PyErr_SetString(PyExc_TypeError, kText);
        return false;
      }
    }
    return true;
  }
  if (PyExceptionClass_Check(type.get())) return true;
  PyErr_SetString(PyExc_TypeError, kText);
  return false;
}

bool CheckExceptStarType(BorrowedRef type) {
  if (!CheckExceptType(type)) return false;
  const auto is_group = [](PyObject* t) { return PyObject_IsSubclass(t, PyExc_BaseExceptionGroup); };
  int group = 0;
  if (PyTuple_Check(type.get())) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type.get()) && group == 0; ++i) {
      group = is_group(PyTuple_GET_ITEM(type.get(), i));
    }
  } else {
    group = is_group(type);
  }
  if (group > 0) {
    PyErr_SetString(PyExc_TypeError, "catching ExceptionGroup with except* is not allowed. Use except instead.");
  }
  return group == 0;
}

}  // namespace framefuse
