#include "guards/immutable.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/hash/hash.h"
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/private_api.h"
#include "guards/leaf/tensor.h"

namespace framefuse {
namespace {

// Tuples nest; deeper ones are compared by identity, so that a guard cannot overflow the C stack.
constexpr int kMaxDepth = 32;

// Tuple subclasses whose instances hold nothing but their items: named tuples, torch.Size; not struct sequences, which
// have hidden fields.
bool IsPlainTupleType(PyTypeObject* type) {
  if (type == &PyTuple_Type) return true;
  if (!PyType_FastSubclass(type, Py_TPFLAGS_TUPLE_SUBCLASS) || type->tp_dictoffset != 0 ||
      type->tp_basicsize > static_cast<Py_ssize_t>(sizeof(PyTupleObject))) {
    return false;
  }
  static PyObject* const fields = PyUnicode_InternFromString("n_sequence_fields");
  return frame_ops::TypeLookup(type, fields) == nullptr;
}

std::vector<PyTypeObject*>& NumberTypes() {
  static auto* types = new std::vector<PyTypeObject*>;
  return *types;
}

bool IsNumberType(PyTypeObject* type) {
  return std::find(NumberTypes().begin(), NumberTypes().end(), type) != NumberTypes().end();
}

std::vector<PyTypeObject*>& ComparedTypes() {
  static auto* types = new std::vector<PyTypeObject*>;
  return *types;
}

bool IsComparedType(PyTypeObject* type) {
  return std::find(ComparedTypes().begin(), ComparedTypes().end(), type) != ComparedTypes().end();
}

std::string BytesOf(PyObject* number) {
  Py_buffer view;
  if (PyObject_GetBuffer(number, &view, PyBUF_SIMPLE) != 0) {
    PyErr_Clear();
    return "";
  }
  std::string bytes(static_cast<const char*>(view.buf), static_cast<std::size_t>(view.len));
  PyBuffer_Release(&view);
  return bytes;
}

bool IsScalarType(PyTypeObject* type) {
  return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type ||
         type == Py_TYPE(Py_None) || type == &PyBytes_Type || type == &PyComplex_Type || type == Py_TYPE(Py_Ellipsis) ||
         type == Py_TYPE(Py_NotImplemented) || IsNumberType(type);
}

bool IsImmutableAt(PyObject* value, int depth) {
  PyTypeObject* type = Py_TYPE(value);
  if (IsScalarType(type) || type == &PyRange_Type || IsComparedType(type)) return true;
  if (depth >= kMaxDepth) return false;
  if (type == &PySlice_Type) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    return IsImmutableAt(slice->start, depth + 1) && IsImmutableAt(slice->stop, depth + 1) &&
           IsImmutableAt(slice->step, depth + 1);
  }
  if (type == &PyFrozenSet_Type) {
    Py_ssize_t position = 0;
    PyObject* item = nullptr;
    while (private_api::SetNext(value, &position, &item)) {
      if (!IsImmutableAt(item, depth + 1)) return false;
    }
    return true;
  }
  if (!IsPlainTupleType(type)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
    if (!IsImmutableAt(PyTuple_GET_ITEM(value, i), depth + 1)) return false;
  }
  return true;
}

bool RichEqual(PyObject* a, PyObject* b) {
  const int result = PyObject_RichCompareBool(a, b, Py_EQ);
  if (result < 0) PyErr_Clear();
  return result == 1;
}

// start, stop and step: equal ranges need not have equal attributes.
bool SameRange(PyObject* a, PyObject* b) {
  for (const char* name : {"start", "stop", "step"}) {
    Ref x = Ref::Steal(PyObject_GetAttrString(a, name));
    Ref y = Ref::Steal(PyObject_GetAttrString(b, name));
    if (!x || !y) {
      PyErr_Clear();
      return false;
    }
    if (Py_TYPE(x.get()) != Py_TYPE(y.get()) || !SameImmutable(x, y)) return false;
  }
  return true;
}

bool SameAt(PyObject* a, PyObject* b, int depth);

// In table order: iteration can tell sets with other orders apart.
bool SameFrozenSet(PyObject* a, PyObject* b, int depth) {
  if (!private_api::SameSetLayout(a, b)) return false;
  Py_ssize_t i = 0, j = 0;
  PyObject *x = nullptr, *y = nullptr;
  while (private_api::SetNext(a, &i, &x)) {
    if (!private_api::SetNext(b, &j, &y) || !SameAt(x, y, depth + 1)) return false;
  }
  return true;
}

// 0.0 and -0.0 are two values, a NaN is equal to itself.
bool SameBits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

bool SameAt(PyObject* a, PyObject* b, int depth) {
  if (a == b) return true;
  PyTypeObject* type = Py_TYPE(a);
  if (type != Py_TYPE(b)) return false;
  if (type == &PyUnicode_Type || type == &PyLong_Type || IsComparedType(type)) return RichEqual(a, b);
  if (type == &PyFloat_Type) {
    return SameBits(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
  }
  if (type == &PyComplex_Type) {
    const Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
    return SameBits(x.real, y.real) && SameBits(x.imag, y.imag);
  }
  if (type == &PyBytes_Type) {
    return PyBytes_GET_SIZE(a) == PyBytes_GET_SIZE(b) &&
           std::memcmp(PyBytes_AS_STRING(a), PyBytes_AS_STRING(b), static_cast<std::size_t>(PyBytes_GET_SIZE(a))) == 0;
  }
  if (type == &PyRange_Type) return SameRange(a, b);
  if (IsNumberType(type)) return BytesOf(a) == BytesOf(b) && !BytesOf(a).empty();
  if (depth >= kMaxDepth) return false;
  if (type == &PySlice_Type) {
    auto* x = reinterpret_cast<PySliceObject*>(a);
    auto* y = reinterpret_cast<PySliceObject*>(b);
    return SameAt(x->start, y->start, depth + 1) && SameAt(x->stop, y->stop, depth + 1) &&
           SameAt(x->step, y->step, depth + 1);
  }
  if (type == &PyFrozenSet_Type) return SameFrozenSet(a, b, depth);
  if (!IsPlainTupleType(type)) return false;
  const Py_ssize_t n = PyTuple_GET_SIZE(a);
  if (n != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (!SameAt(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i), depth + 1)) return false;
  }
  return true;
}

std::size_t HashAt(PyObject* value, int depth) {
  PyTypeObject* type = Py_TYPE(value);
  if (type == &PyUnicode_Type) return static_cast<std::size_t>(PyObject_Hash(value));  // names, most of the time
  if (type == &PyLong_Type || type == &PyBytes_Type || type == &PyRange_Type) {
    return absl::HashOf(type, PyObject_Hash(value));
  }
  if (type == &PyFloat_Type) {
    std::uint64_t bits = 0;
    const double x = PyFloat_AS_DOUBLE(value);
    std::memcpy(&bits, &x, sizeof bits);
    return absl::HashOf(type, bits);
  }
  if (type == &PyComplex_Type) {
    std::uint64_t bits[2] = {};
    const Py_complex x = PyComplex_AsCComplex(value);
    std::memcpy(bits, &x, sizeof bits);
    return absl::HashOf(type, bits[0], bits[1]);
  }
  if (type == &PySlice_Type || type == &PyFrozenSet_Type || IsComparedType(type)) return absl::HashOf(type);
  if (IsNumberType(type)) return absl::HashOf(type, BytesOf(value));
  if (depth < kMaxDepth && IsPlainTupleType(type)) {
    std::size_t hash = absl::HashOf(type, PyTuple_GET_SIZE(value));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
      PyObject* item = PyTuple_GET_ITEM(value, i);
      hash = absl::HashOf(hash, HashAt(item, depth + 1));
    }
    return hash;
  }
  return absl::HashOf(value);
}

}  // namespace

void AddNumberType(PyTypeObject* type) { NumberTypes().push_back(type); }

void AddComparedType(PyTypeObject* type) { ComparedTypes().push_back(type); }

bool IsImmutable(BorrowedRef value) { return IsImmutableAt(value, 0); }

bool IsImmutableKey(BorrowedRef value) {
  PyTypeObject* type = Py_TYPE(value.get());
  if (IsScalarType(type)) return true;
  if (type == &PySlice_Type) return false;
  const bool compares_as_tuple = IsTorchSizeType(type) || (type->tp_hash == PyTuple_Type.tp_hash &&
                                                           type->tp_richcompare == PyTuple_Type.tp_richcompare);
  if (IsPlainTupleType(type) && compares_as_tuple) {
    if (!IsImmutable(value)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value.get()); ++i) {
      if (!IsImmutableKey(PyTuple_GET_ITEM(value.get(), i))) return false;
    }
    return true;
  }
  return (type == &PyRange_Type || type == &PyFrozenSet_Type) && IsImmutable(value);
}

bool SameImmutable(BorrowedRef a, BorrowedRef b) { return SameAt(a, b, 0); }

std::size_t HashImmutable(BorrowedRef value) { return HashAt(value, 0); }

bool EqualAsKeys(BorrowedRef a, BorrowedRef b) { return a == b || RichEqual(a, b); }

}  // namespace framefuse
