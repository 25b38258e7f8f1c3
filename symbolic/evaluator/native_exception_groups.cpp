// NativeProtocols: `except*`.
#include "symbolic/evaluator/native_errors.h"
#include "symbolic/evaluator/native_protocols.h"

namespace framefuse {
namespace {

Value Lent(PyObject* borrowed) { return {Ref::Create(borrowed), kNoSource}; }

bool IsGroup(BorrowedRef exception) {
  return PyObject_TypeCheck(exception.get(), reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup)) != 0;
}

Ref NewGroup(BorrowedRef exceptions) {
  return Ref::Steal(PyObject_CallFunction(PyExc_BaseExceptionGroup, "sO", "", exceptions.get()));
}

// Raised again unchanged, and not anew.
bool SameMetadata(BorrowedRef a, BorrowedRef b) {
  const auto* x = reinterpret_cast<PyBaseExceptionObject*>(a.get());
  const auto* y = reinterpret_cast<PyBaseExceptionObject*>(b.get());
  return x->notes == y->notes && x->traceback == y->traceback && x->cause == y->cause && x->context == y->context;
}

BorrowedRef Children(BorrowedRef group) { return reinterpret_cast<PyBaseExceptionGroupObject*>(group.get())->excs; }

bool CollectLeaves(PyObject* exception, PyObject* leaf_ids) {
  if (!IsGroup(exception)) {
    const Ref id = Ref::Steal(PyLong_FromVoidPtr(exception));
    return id && PySet_Add(leaf_ids, id) == 0;
  }
  const BorrowedRef children = Children(exception);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(children.get()); ++i) {
    if (!CollectLeaves(PyTuple_GET_ITEM(children.get(), i), leaf_ids)) return false;
  }
  return true;
}

// A group like `original` with other members: same traceback, context, cause and notes.
Ref Subset(BorrowedRef original, BorrowedRef members) {
  Ref group = Ref::Steal(PyObject_CallMethod(original, "derive", "(O)", members.get()));
  if (!group) return nullptr;
  if (!IsGroup(group)) {
    PyErr_SetString(PyExc_TypeError, "derive must return an instance of BaseExceptionGroup");
    return nullptr;
  }
  const Ref traceback = Ref::Steal(PyException_GetTraceback(original));
  if (traceback && PyException_SetTraceback(group, traceback) != 0) return nullptr;
  PyException_SetContext(group, PyException_GetContext(original));
  PyException_SetCause(group, PyException_GetCause(original));
  const Ref notes = Ref::Steal(PyObject_GetAttrString(original, "__notes__"));
  if (!notes) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return nullptr;
    PyErr_Clear();
  } else if (PySequence_Check(notes)) {
    const Ref copy = Ref::Steal(PySequence_List(notes));
    if (!copy || PyObject_SetAttrString(group, "__notes__", copy) != 0) return nullptr;
  }
  return group;
}

// The part of `exception` whose leaves are in `leaf_ids`; None where there is none.
Ref Restrict(BorrowedRef exception, PyObject* leaf_ids) {
  if (!IsGroup(exception)) {
    const Ref id = Ref::Steal(PyLong_FromVoidPtr(exception.get()));
    const int found = id ? PySet_Contains(leaf_ids, id) : -1;
    return found < 0 ? Ref() : Ref::Create(found != 0 ? exception.get() : Py_None);
  }
  const Ref members = Ref::Steal(PyList_New(0));
  if (!members) return nullptr;
  const BorrowedRef children = Children(exception);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(children.get()); ++i) {
    if (Py_EnterRecursiveCall(" in exceptiongroup_split_recursive") != 0) return nullptr;
    const Ref part = Restrict(PyTuple_GET_ITEM(children.get(), i), leaf_ids);
    Py_LeaveRecursiveCall();
    if (!part || (part.get() != Py_None && PyList_Append(members, part) != 0)) return nullptr;
  }
  if (PyList_GET_SIZE(members.get()) == 0) return Ref::Create(Py_None);
  return Subset(exception, members);
}

// The part of `group` with the leaves of the exceptions in `keep`, or None.
Ref Project(BorrowedRef group, BorrowedRef keep) {
  const Ref leaf_ids = Ref::Steal(PySet_New(nullptr));
  if (!leaf_ids) return nullptr;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keep.get()); ++i) {
    if (!CollectLeaves(PyList_GET_ITEM(keep.get(), i), leaf_ids)) return nullptr;
  }
  return Restrict(group, leaf_ids);
}

}  // namespace

bool NativeProtocols::ExceptionGroupMatch(Activation& act, ValueView exception, ValueView type, Value* match,
                                          Value* rest) {
  if (!CheckExceptStarType(type.object)) return false;
  bool done = false;
  if (frame_ops::MatchExceptionGroup(act.frame, exception.object, type.object, &match->object, &rest->object, &done)) {
    return done;
  }
  *match = Lent(Py_None);
  *rest = Lent(exception.object);
  if (exception.object.get() == Py_None) return true;
  if (PyErr_GivenExceptionMatches(exception.object, type.object)) {
    *rest = Lent(Py_None);
    if (IsGroup(exception.object)) {
      *match = Lent(exception.object);
      return true;
    }
    const Ref alone = Ref::Steal(PyTuple_Pack(1, exception.object.get()));
    if (!alone) return false;
    match->object = NewGroup(alone);
    return static_cast<bool>(match->object);
  }
  if (!IsGroup(exception.object)) return true;
  const Ref pair = Ref::Steal(PyObject_CallMethod(exception.object, "split", "(O)", type.object.get()));
  if (!pair) return false;
  if (!PyTuple_CheckExact(pair.get()) || PyTuple_GET_SIZE(pair.get()) < 2) {
    PyErr_Format(PyExc_TypeError, "%.200s.split must return a 2-tuple", exception.object.type()->tp_name);
    return false;
  }
  *match = Lent(PyTuple_GET_ITEM(pair.get(), 0));
  *rest = Lent(PyTuple_GET_ITEM(pair.get(), 1));
  return true;
}

Value NativeProtocols::PrepareReraiseStar(Activation&, ValueView original, ValueView results) {
  PyObject* list = results.object;
  const Py_ssize_t count = PyList_GET_SIZE(list);
  if (count == 0) return Lent(Py_None);
  // A single exception was wrapped: one clause at most ran.
  if (!IsGroup(original.object)) return Lent(PyList_GET_ITEM(list, 0));
  const Ref raised = Ref::Steal(PyList_New(0));
  const Ref reraised = Ref::Steal(PyList_New(0));
  if (!raised || !reraised) return {};
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* exception = PyList_GET_ITEM(list, i);
    if (exception == Py_None) continue;
    if (PyList_Append(SameMetadata(exception, original.object) ? reraised : raised, exception) != 0) return {};
  }
  Ref again = Project(original.object, reraised);
  if (!again) return {};
  if (PyList_GET_SIZE(raised.get()) == 0) return {std::move(again), kNoSource};
  if (again.get() != Py_None && PyList_Append(raised, again) != 0) return {};
  if (PyList_GET_SIZE(raised.get()) == 1) return Lent(PyList_GET_ITEM(raised.get(), 0));
  return {NewGroup(raised), kNoSource};
}

}  // namespace framefuse
