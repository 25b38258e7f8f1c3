#include "guards/made_reads.h"

#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/private_api.h"
#include "guards/leaf/tensor.h"
#include "guards/read.h"

namespace framefuse {
namespace {

// As deque has it, not a class derived from that.
Ref MaxlenOf(BorrowedRef object) {
  static PyObject* const descriptor = [] {
    const Ref module = Ref::Steal(PyImport_ImportModule("_collections"));
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

Ref MakeRead(SourceKind kind, BorrowedRef base) {
  if (kind == SourceKind::kContextValue) return ValueInContext(base);
  if (kind == SourceKind::kContextDefault) return DefaultInContext(base);
  if (kind == SourceKind::kMaxlen) return MaxlenOf(base);
  if (kind == SourceKind::kLength) return LengthOf(base);
  const GcPause no_collection;  // a tensor that Python has not seen yet gets its object here
  if (kind == SourceKind::kTensorGrad) return ReadGrad(base);
  return kind == SourceKind::kTensorOfArray ? TensorOfArray(base) : Ref();
}

}  // namespace framefuse
