#include "guards/leaf/number_list.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <vector>

namespace framefuse {
namespace {

constexpr std::size_t kDeepest = 8;

bool IsSequence(PyObject* o) { return PyList_CheckExact(o) || PyTuple_CheckExact(o); }

// The numbers in their order, borrowed from lists of one shape.
struct Numbers {
  std::vector<std::int64_t> sizes;
  std::vector<PyObject*> all;
  bool any_float = false;

  bool Take(PyObject* o, std::size_t depth) {
    if (depth == sizes.size()) {
      any_float = any_float || PyFloat_CheckExact(o);
      all.push_back(o);
      return PyFloat_CheckExact(o) || PyLong_CheckExact(o);
    }
    if (!IsSequence(o) || PySequence_Fast_GET_SIZE(o) != sizes[depth]) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      if (!Take(PySequence_Fast_GET_ITEM(o, i), depth + 1)) return false;
    }
    return true;
  }

  bool TakeAll(PyObject* list) {
    PyObject* first = list;
    while (IsSequence(first)) {
      sizes.push_back(PySequence_Fast_GET_SIZE(first));
      if (sizes.size() > kDeepest || sizes.back() == 0) return sizes.size() <= kDeepest && Take(list, 0);
      first = PySequence_Fast_GET_ITEM(first, 0);
    }
    return !sizes.empty() && Take(list, 0);
  }
};

bool Convert(PyObject* number, std::int64_t* to) {
  if (PyFloat_CheckExact(number)) return false;
  int overflow = 0;
  *to = PyLong_AsLongLongAndOverflow(number, &overflow);
  return overflow == 0;
}

template <typename Float>
bool Convert(PyObject* number, Float* to) {
  const double value = PyFloat_AsDouble(number);
  if (value == -1.0 && PyErr_Occurred() != nullptr) {  // too large an integer
    PyErr_Clear();
    return false;
  }
  *to = static_cast<Float>(value);
  return true;
}

template <typename T>
bool Fill(const at::TensorBase& tensor, const std::vector<PyObject*>& numbers) {
  T* to = tensor.mutable_data_ptr<T>();
  for (PyObject* number : numbers) {
    if (!Convert(number, to++)) return false;
  }
  return true;
}

}  // namespace

Ref TensorOfNumbers(BorrowedRef list, std::int32_t index) {
  Numbers numbers;
  if (!IsSequence(list.get()) || !numbers.TakeAll(list.get())) return {};
  const bool floats = numbers.any_float || numbers.all.empty();
  c10::ScalarType scalar = floats ? c10::get_default_dtype_as_scalartype() : c10::ScalarType::Long;
  if (index != kOfNumbers) scalar = static_cast<c10::ScalarType>(index - IndexOfType(0));
  const c10::InferenceMode not_inference(false);
  const auto make = [&] { return at::detail::empty_cpu(numbers.sizes, scalar); };
  const auto wrap = [](const at::TensorBase& made) { return Ref::Steal(THPVariable_Wrap(at::Tensor(made))); };
  if (scalar == c10::ScalarType::Long) {
    const at::TensorBase made = make();
    return Fill<std::int64_t>(made, numbers.all) ? wrap(made) : Ref();
  }
  if (scalar == c10::ScalarType::Float) {
    const at::TensorBase made = make();
    return Fill<float>(made, numbers.all) ? wrap(made) : Ref();
  }
  if (scalar != c10::ScalarType::Double) return {};
  const at::TensorBase made = make();
  return Fill<double>(made, numbers.all) ? wrap(made) : Ref();
}

}  // namespace framefuse
