#include "symbolic/tracing/int_factories.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/tensor/python_tensor.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>

#include "backends/graph/operators.h"
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {
namespace {

// Null: it is given nowhere.
PyObject* GivenFor(const c10::Argument& schema, std::size_t position, absl::Span<PyObject* const> args,
                   BorrowedRef kwnames) {
  const std::size_t names = kwnames ? static_cast<std::size_t>(PyTuple_GET_SIZE(kwnames.get())) : 0;
  const std::size_t positional = args.size() - names;
  if (!schema.kwarg_only() && position < positional) return args[position];
  for (std::size_t i = 0; i < names; ++i) {
    PyObject* name = PyTuple_GET_ITEM(kwnames.get(), static_cast<Py_ssize_t>(i));
    if (PyUnicode_CompareWithASCIIString(name, schema.name().c_str()) == 0) return args[positional + i];
  }
  return nullptr;
}

std::optional<c10::IValue> ValueOf(const Numbers& numbers, PyObject* object) {
  Sizes& sizes = numbers.sizes();
  if (numbers.IsSymbolic(object)) {
    const ir::Dim d = *numbers.Find(object);
    return sizes.IsFloat(d) ? c10::IValue(sizes.ToSymFloat(d)) : c10::IValue(sizes.ToSymInt(d));
  }
  if (PyFloat_CheckExact(object)) return PyFloat_AS_DOUBLE(object);
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const std::int64_t number = PyLong_AsLongLongAndOverflow(object, &overflow);
    return overflow == 0 ? std::optional<c10::IValue>(number) : std::nullopt;
  }
  if (THPDtype_Check(object)) return reinterpret_cast<THPDtype*>(object)->scalar_type;
  return std::nullopt;
}

// What the binding gives for what is not given.
c10::IValue DefaultOf(const c10::Argument& schema) {
  if (schema.name() == "device") return torch::tensors::get_default_device();
  if (schema.name() == "pin_memory") return false;
  return schema.default_value().value_or(c10::IValue());
}

}  // namespace

Ref CallIntFactory(const Numbers& numbers, std::string_view name, absl::Span<PyObject* const> args,
                   BorrowedRef kwnames) {
  if (name != "linspace" && name != "logspace") return Ref();
  const auto is_symbolic = [&](PyObject* o) { return numbers.IsSymbolic(o); };
  if (std::none_of(args.begin(), args.end(), is_symbolic) || at::impl::PythonTorchFunctionTLS::stack_len() > 0) {
    return Ref();
  }
  const c10::OperatorHandle handle =
      ir::RequireOp(name == "linspace" ? ir::OpName::kLinspace : ir::OpName::kLogspace)->handle();
  torch::jit::Stack stack;
  std::size_t given = 0;
  for (std::size_t i = 0; i < handle.schema().arguments().size(); ++i) {
    const c10::Argument& schema = handle.schema().arguments()[i];
    PyObject* object = GivenFor(schema, i, args, kwnames);
    if (object != nullptr) ++given;
    if (object == nullptr && !schema.default_value() && !schema.kwarg_only()) return Ref();
    const bool absent = object == nullptr || (object == Py_None && schema.kwarg_only());
    const std::optional<c10::IValue> value = absent ? std::optional(DefaultOf(schema)) : ValueOf(numbers, object);
    if (!value) return Ref();
    stack.push_back(*value);
  }
  if (given != args.size()) return Ref();  // out=, requires_grad=
  try {
    Recorder::Current()->RecordPlain(TraitsOf(handle), &stack);
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
    return Ref();
  }
  return Ref::Steal(THPVariable_Wrap(stack[0].toTensor()));
}

}  // namespace framefuse::tracing
