#include "guards/made_reads.h"

#include "frame_eval/import_module.h"
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/private_api.h"
#include "guards/leaf/number_list.h"
#include "guards/leaf/tensor.h"
#include "guards/read.h"

namespace framefuse {
namespace {

// As deque has it, not a class derived from that.
Ref MaxlenOf(BorrowedRef object) {
  static PyObject* const descriptor = [] {
    const Ref module = ImportModule("_collections");
    const Ref deque = module ? Ref::Steal(PyObject_GetAttrString(module, "deque")) : Ref();
    return deque ? PyObject_GetAttrString(deque, "maxlen") : nullptr;
  }();
  if (descriptor == nullptr || Py_TYPE(descriptor) != &PyGetSetDescr_Type ||
      !PyObject_TypeCheck(object.get(), PyDescr_TYPE(descriptor))) {
    return Ref();
  }
  return Ref::Steal(PyGetSetDescr_Type.tp_descr_get(descriptor, object, nullptr));
}

Ref LengthOf(BorrowedRef object) {
  const Py_ssize_t length = RawLength(object);
  Ref number = length < 0 ? Ref() : Ref::Steal(PyLong_FromSsize_t(length));
  if (length >= 0 && !number) PyErr_Clear();
  return number;
}

}  // namespace

bool IsThreadLocal(PyTypeObject* type) {
  static auto* const local = [] {
    const Ref module = ImportModule("_thread");
    return reinterpret_cast<PyTypeObject*>(module ? PyObject_GetAttrString(module, "_local") : nullptr);
  }();
  if (local == nullptr || type->tp_getattro != local->tp_getattro || type->tp_setattro != local->tp_setattro) {
    return false;
  }
  return type->tp_init == PyBaseObject_Type.tp_init && PyType_IsSubtype(type, local) != 0;
}

Ref ThreadDict(BorrowedRef object) {
  static PyObject* const name = PyUnicode_InternFromString("__dict__");
  if (!IsThreadLocal(object.type())) return Ref();
  Ref dict = Ref::Steal(PyObject_GetAttr(object, name));
  if (!dict) PyErr_Clear();
  return dict;
}

Ref MakeRead(SourceKind kind, BorrowedRef base, std::int32_t index) {
  if (kind == SourceKind::kContextValue) return ValueInContext(base);
  if (kind == SourceKind::kContextDefault) return DefaultInContext(base);
  if (kind == SourceKind::kMaxlen) return MaxlenOf(base);
  if (kind == SourceKind::kLength) return LengthOf(base);
  if (kind == SourceKind::kThreadDict) return ThreadDict(base);
  const GcPause no_collection;  // a tensor that Python has not seen yet gets its object here
  if (kind == SourceKind::kTensorGrad) return ReadGrad(base);
  if (kind != SourceKind::kTensorOfArray) return Ref();
  return index >= kOfNumbers ? TensorOfNumbers(base, index) : TensorOfArray(base);
}

}  // namespace framefuse
