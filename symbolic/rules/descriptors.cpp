#include "symbolic/rules/descriptors.h"

#include "frame_eval/versions/frame_ops.h"

namespace framefuse {

bool IsNativeDefault(BorrowedRef method, BorrowedRef name) {
  if (!method || method.type() != &PyWrapperDescr_Type) return false;
  PyObject* own_name = reinterpret_cast<PyDescrObject*>(method.get())->d_name;
  return own_name == name.get() || PyUnicode_Compare(own_name, name) == 0;
}

bool ReadsGenerically(BorrowedRef getattribute) {
  if (!getattribute || getattribute.type() != &PyWrapperDescr_Type) return false;
  void* const wrapped = reinterpret_cast<PyWrapperDescrObject*>(getattribute.get())->d_wrapped;
  return wrapped == reinterpret_cast<void*>(PyBaseObject_Type.tp_getattro) ||
         wrapped == reinterpret_cast<void*>(PyModule_Type.tp_getattro);
}

void SetMissingAttribute(BorrowedRef object, BorrowedRef name) {
  PyThreadState* thread = PyThreadState_Get();
  Ref error = frame_ops::FetchRaised(thread);
  if (error && PyErr_GivenExceptionMatches(error, PyExc_AttributeError) != 0 &&
      (PyObject_SetAttrString(error, "name", name) != 0 || PyObject_SetAttrString(error, "obj", object) != 0)) {
    PyErr_Clear();
  }
  frame_ops::RestoreRaised(thread, std::move(error));
}

Ref GetterOf(BorrowedRef property) {
  PyObject* member = PyDict_GetItemString(frame_ops::TypeDict(&PyProperty_Type), "fget");
  return Ref::Steal(PyMemberDescr_Type.tp_descr_get(member, property, reinterpret_cast<PyObject*>(property.type())));
}

Value AttributeError(BorrowedRef object, BorrowedRef name) {
  const Ref ignored = Ref::Steal(PyObject_GenericGetAttr(object, name));
  if (ignored) {  // shadowed by a deletion in the overlay
    PyErr_Format(PyExc_AttributeError, "'%.100s' object has no attribute '%U'", Py_TYPE(object.get())->tp_name,
                 name.get());
    SetMissingAttribute(object, name);
  }
  return Value();
}

}  // namespace framefuse
