#include "symbolic/evaluator/native_async.h"

#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/private_api.h"
#include "symbolic/evaluator/native_errors.h"

namespace framefuse {
namespace {

bool IsCoroutine(PyObject* object) {
  if (PyCoro_CheckExact(object)) return true;
  if (!PyGen_CheckExact(object)) return false;
  Ref code = Ref::Steal(PyObject_GetAttrString(object, "gi_code"));
  if (!code) {
    PyErr_Clear();
    return false;
  }
  return (reinterpret_cast<PyCodeObject*>(code.get())->co_flags & CO_ITERABLE_COROUTINE) != 0;
}

Ref AwaitableIterator(BorrowedRef object) {
  if (IsCoroutine(object)) return Ref::Create(object);
  PyTypeObject* type = object.type();
  if (type->tp_as_async == nullptr || type->tp_as_async->am_await == nullptr) {
    PyErr_Format(PyExc_TypeError, frame_ops::kNotAwaitable, type->tp_name);
    return nullptr;
  }
  Ref iterator = Ref::Steal(type->tp_as_async->am_await(object));
  if (!iterator) return nullptr;
  if (IsCoroutine(iterator)) {
    PyErr_SetString(PyExc_TypeError, "__await__() returned a coroutine");
    return nullptr;
  }
  if (!PyIter_Check(iterator)) {
    PyErr_Format(PyExc_TypeError, "__await__() returned non-iterator of type '%.100s'", iterator.type()->tp_name);
    return nullptr;
  }
  return iterator;
}

// Caused by the error that is set.
void SetInvalidNextError(PyTypeObject* type) {
  PyThreadState* thread = PyThreadState_Get();
  Ref cause = frame_ops::FetchRaised(thread);
  const Ref message =
      Ref::Steal(PyUnicode_FromFormat("'async for' received an invalid object from __anext__: %.100s", type->tp_name));
  if (!message) return;
  frame_ops::RestoreRaised(thread, std::move(cause));
  private_api::RaiseFromCurrent(PyExc_TypeError, message);
}

bool HasAsyncNext(PyTypeObject* type) { return type->tp_as_async != nullptr && type->tp_as_async->am_anext != nullptr; }

}  // namespace

Ref GetAwaitable(BorrowedRef object, int arg) {
  Ref iterator = AwaitableIterator(object);
  if (!iterator) {
    SetAwaitableError(object.type(), arg);
    return nullptr;
  }
  if (PyCoro_CheckExact(iterator.get())) {
    Ref awaited = Ref::Steal(PyObject_GetAttrString(iterator, "cr_await"));
    if (!awaited) return nullptr;
    if (awaited.get() != Py_None) {
      PyErr_SetString(PyExc_RuntimeError, "coroutine is being awaited already");
      return nullptr;
    }
  }
  return iterator;
}

Ref GetAsyncIterator(BorrowedRef object) {
  PyTypeObject* type = object.type();
  if (type->tp_as_async == nullptr || type->tp_as_async->am_aiter == nullptr) {
    PyErr_Format(PyExc_TypeError, "'async for' requires an object with __aiter__ method, got %.100s", type->tp_name);
    return nullptr;
  }
  Ref iterator = Ref::Steal(type->tp_as_async->am_aiter(object));
  if (!iterator) return nullptr;
  if (!HasAsyncNext(iterator.type())) {
    PyErr_Format(PyExc_TypeError,
                 "'async for' received an object from __aiter__ that does not implement __anext__: %.100s",
                 iterator.type()->tp_name);
    return nullptr;
  }
  return iterator;
}

Ref GetAsyncNext(BorrowedRef iterator) {
  PyTypeObject* type = iterator.type();
  if (PyAsyncGen_CheckExact(iterator.get())) return Ref::Steal(type->tp_as_async->am_anext(iterator));
  if (!HasAsyncNext(type)) {
    PyErr_Format(PyExc_TypeError, "'async for' requires an iterator with __anext__ method, got %.100s", type->tp_name);
    return nullptr;
  }
  Ref next = Ref::Steal(type->tp_as_async->am_anext(iterator));
  if (!next) return nullptr;
  Ref awaitable = AwaitableIterator(next);
  if (!awaitable) {
    SetInvalidNextError(next.type());
  }
  return awaitable;
}

bool EnterAsync(BorrowedRef manager, Ref* exit, Ref* entered) {
  static PyObject* const enter_name = PyUnicode_InternFromString("__aenter__");
  static PyObject* const exit_name = PyUnicode_InternFromString("__aexit__");
  const char* type_name = manager.type()->tp_name;
  Ref enter = frame_ops::LookupSpecial(manager, enter_name);
  if (!enter) {
    if (PyErr_Occurred() == nullptr) {
      PyErr_Format(PyExc_TypeError, "'%.200s' object does not support the asynchronous context manager protocol",
                   type_name);
    }
    return false;
  }
  *exit = frame_ops::LookupSpecial(manager, exit_name);
  if (!*exit) {
    if (PyErr_Occurred() == nullptr) {
      PyErr_Format(PyExc_TypeError,
                   "'%.200s' object does not support the asynchronous context manager protocol "
                   "(missed __aexit__ method)",
                   type_name);
    }
    return false;
  }
  *entered = Ref::Steal(PyObject_CallNoArgs(enter));
  return static_cast<bool>(*entered);
}

}  // namespace framefuse
