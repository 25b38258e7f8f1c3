// NativeProtocols: unpacking, building, formatting.
#include "absl/container/inlined_vector.h"
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/opcode_table.h"
#include "frame_eval/versions/private_api.h"
#include "symbolic/evaluator/native_errors.h"
#include "symbolic/evaluator/native_protocols.h"

namespace framefuse {
namespace {

Value Fresh(PyObject* owned) { return {Ref::Steal(owned), kNoSource}; }

bool IsIterable(BorrowedRef v) { return v.type()->tp_iter != nullptr || PySequence_Check(v); }

// The iterator that an unpacking walks.
Ref UnpackIterator(BorrowedRef v) {
  Ref iterator = Ref::Steal(PyObject_GetIter(v));
  if (!iterator && PyErr_ExceptionMatches(PyExc_TypeError) && !IsIterable(v)) {
    PyErr_Format(PyExc_TypeError, "cannot unpack non-iterable %.200s object", v.type()->tp_name);
  }
  return iterator;
}

// Fills out[0..count); `expected` is the text for a value too few.
bool TakeItems(BorrowedRef iterator, int count, const char* at_least, int wanted, absl::Span<Value> out) {
  for (int i = 0; i < count; ++i) {
    out[static_cast<std::size_t>(i)] = Fresh(PyIter_Next(iterator));
    if (out[static_cast<std::size_t>(i)]) continue;
    if (PyErr_Occurred() == nullptr) {
      PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %s%d, got %d)", at_least, wanted, i);
    }
    return false;
  }
  return true;
}

}  // namespace

namespace {
void SetTooManyError(PyObject* unpacked, int wanted) {
  const bool has_length = PyList_CheckExact(unpacked) || PyTuple_CheckExact(unpacked) || PyDict_CheckExact(unpacked);
  if (kCountsTooManyValues && has_length) {
    PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d, got %zd)", wanted,
                 PyObject_Length(unpacked));
  } else {
    PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", wanted);
  }
}
}  // namespace

bool NativeProtocols::UnpackSequence(Activation&, ValueView v, absl::Span<Value> out) {
  PyObject* object = v.object;
  // Exact tuples and lists have no iteration of their own.
  if (PyTuple_CheckExact(object) && PyTuple_GET_SIZE(object) == static_cast<Py_ssize_t>(out.size())) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i].object = Ref::Create(PyTuple_GET_ITEM(object, i));
    return true;
  }
  if (PyList_CheckExact(object) && PyList_GET_SIZE(object) == static_cast<Py_ssize_t>(out.size())) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i].object = Ref::Create(PyList_GET_ITEM(object, i));
    return true;
  }
  const Ref iterator = UnpackIterator(v.object);
  const int count = static_cast<int>(out.size());
  if (!iterator || !TakeItems(iterator, count, "", count, out)) return false;
  const Ref more = Ref::Steal(PyIter_Next(iterator));
  if (more) SetTooManyError(object, count);
  return !more && PyErr_Occurred() == nullptr;
}

bool NativeProtocols::UnpackEx(Activation&, ValueView v, int before, int after, absl::Span<Value> out) {
  const Ref iterator = UnpackIterator(v.object);
  if (!iterator || !TakeItems(iterator, before, "at least ", before + after, out)) return false;
  Ref rest = Ref::Steal(PySequence_List(iterator));
  if (!rest) return false;
  const Py_ssize_t length = PyList_GET_SIZE(rest.get());
  if (length < after) {
    PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)", before + after,
                 before + length);
    return false;
  }
  const auto first = static_cast<std::size_t>(before);
  for (int i = 0; i < after; ++i) {
    out[first + 1 + static_cast<std::size_t>(i)].object = Ref::Create(PyList_GET_ITEM(rest.get(), length - after + i));
  }
  if (PyList_SetSlice(rest, length - after, length, nullptr) != 0) return false;
  out[first].object = std::move(rest);
  return true;
}

Value NativeProtocols::BuildTuple(Activation&, absl::Span<const ValueView> items) {
  Ref tuple = Ref::Steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  if (!tuple) return {};
  for (std::size_t i = 0; i < items.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(items[i].object.get()));
  }
  return {std::move(tuple), kNoSource};
}

Value NativeProtocols::BuildList(Activation&, absl::Span<const ValueView> items) {
  Ref list = Ref::Steal(PyList_New(static_cast<Py_ssize_t>(items.size())));
  if (!list) return {};
  for (std::size_t i = 0; i < items.size(); ++i) {
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Py_NewRef(items[i].object.get()));
  }
  return {std::move(list), kNoSource};
}

Value NativeProtocols::BuildSet(Activation&, absl::Span<const ValueView> items) {
  Ref set = Ref::Steal(PySet_New(nullptr));
  if (!set) return {};
  for (const ValueView& item : items) {
    if (PySet_Add(set, item.object) != 0) return {};
  }
  return {std::move(set), kNoSource};
}

Value NativeProtocols::BuildMap(Activation&, absl::Span<const ValueView> keys_and_values) {
  Ref dict = private_api::NewDict(keys_and_values.size() / 2);
  if (!dict) return {};
  for (std::size_t i = 0; i < keys_and_values.size(); i += 2) {
    if (PyDict_SetItem(dict, keys_and_values[i].object, keys_and_values[i + 1].object) != 0) return {};
  }
  return {std::move(dict), kNoSource};
}

Value NativeProtocols::BuildString(Activation&, absl::Span<const ValueView> parts) {
  static PyObject* const empty = PyUnicode_InternFromString("");
  absl::InlinedVector<PyObject*, 8> objects;
  for (const ValueView& part : parts) objects.push_back(part.object);
  return {private_api::JoinStrings(empty, objects.data(), objects.size()), kNoSource};
}

Value NativeProtocols::BuildSlice(Activation&, ValueView start, ValueView stop, ValueView step) {
  return Fresh(PySlice_New(start.object, stop.object, step.object));
}

Value NativeProtocols::BuildInterpolation(Activation&, ValueView v, BorrowedRef text, int conversion,
                                          ValueView format) {
  return {frame_ops::MakeInterpolation(v.object, text, conversion, format.object), kNoSource};
}

Value NativeProtocols::BuildTemplate(Activation&, BorrowedRef strings, BorrowedRef interpolations) {
  return {frame_ops::MakeTemplate(strings, interpolations), kNoSource};
}

bool NativeProtocols::ListAppend(Activation&, BorrowedRef list, ValueView item) {
  return PyList_Append(list, item.object) == 0;
}

bool NativeProtocols::SetAdd(Activation&, BorrowedRef set, ValueView item) {
  if (!PySet_Check(set.get())) {  // a module may give __conditional_annotations__ another value
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not a set", set.type()->tp_name);
    return false;
  }
  return PySet_Add(set, item.object) == 0;
}

bool NativeProtocols::MapAdd(Activation&, BorrowedRef map, ValueView key, ValueView value) {
  return PyDict_SetItem(map, key.object, value.object) == 0;
}

bool NativeProtocols::ListExtend(Activation&, BorrowedRef list, ValueView iterable) {
  if (private_api::ListExtend(list, iterable.object)) return true;
  if (PyErr_ExceptionMatches(PyExc_TypeError) && !IsIterable(iterable.object)) {
    PyErr_Format(PyExc_TypeError, "Value after * must be an iterable, not %.200s", iterable.object.type()->tp_name);
  }
  return false;
}

bool NativeProtocols::SetUpdate(Activation&, BorrowedRef set, ValueView iterable) {
  return private_api::SetUpdate(set, iterable.object);
}

bool NativeProtocols::DictUpdate(Activation&, BorrowedRef dict, ValueView mapping, BorrowedRef callable) {
  if (callable) {
    if (private_api::DictMergeNew(dict, mapping.object)) return true;
    ImproveKwargsError(callable, mapping.object);
    return false;
  }
  if (PyDict_Update(dict, mapping.object) == 0) return true;
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not a mapping", mapping.object.type()->tp_name);
  }
  return false;
}

Value NativeProtocols::ListToTuple(Activation&, ValueView list) { return Fresh(PyList_AsTuple(list.object)); }

Value NativeProtocols::ConvertValue(Activation&, ValueView v, int conversion) {
  switch (conversion) {
    case FVC_STR:
      return Fresh(PyObject_Str(v.object));
    case FVC_REPR:
      return Fresh(PyObject_Repr(v.object));
    case FVC_ASCII:
      return Fresh(PyObject_ASCII(v.object));
    default:
      return {Ref::Create(v.object), kNoSource};
  }
}

Value NativeProtocols::FormatValue(Activation& act, ValueView v, int conversion, ValueView spec) {
  Value converted = NativeProtocols::ConvertValue(act, v, conversion);
  if (!converted) return {};
  if (PyUnicode_CheckExact(converted.object.get()) && !spec.object) return converted;
  return Fresh(PyObject_Format(converted.object, spec.object));
}

}  // namespace framefuse
