#include "symbolic/entry/drawn_numbers.h"

#include <ATen/ScalarOps.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <optional>

#include "frame_eval/hook.h"

namespace framefuse {
Ref TensorOfDrawn(BorrowedRef drawn, bool* is_float) {
  *is_float = PyFloat_CheckExact(drawn.get());
  if (*is_float) {
    return Ref::Steal(
        THPVariable_Wrap(at::detail::scalar_tensor_static(PyFloat_AS_DOUBLE(drawn.get()), at::kDouble, at::kCPU)));
  }
  const std::optional<std::int64_t> number = PyLong_CheckExact(drawn.get()) ? IntegerOf(drawn) : std::nullopt;
  return number ? Ref::Steal(THPVariable_Wrap(at::detail::scalar_tensor_static(*number, at::kLong, at::kCPU))) : Ref();
}

Ref CallMethodOf(BorrowedRef generator, BorrowedRef method, absl::Span<const Ref> arguments, BorrowedRef names) {
  std::vector<PyObject*> all = {generator.get()};
  for (const Ref& a : arguments) all.push_back(a.get());
  const std::size_t named = names ? static_cast<std::size_t>(PyTuple_GET_SIZE(names.get())) : 0;
  return Ref::Steal(PyObject_Vectorcall(method, all.data(), all.size() - named, names));
}

bool DrawsOfCall::DrawOne(const DrawnNumber& number, BorrowedRef generator, const SizeValues& sizes) {
  std::vector<Ref> arguments;
  for (const DrawnNumber::Argument& a : number.arguments) {
    arguments.push_back(a.value ? a.value : sizes.ObjectOf(a.expression));
    if (!arguments.back()) return false;
  }
  const Ref drawn = CallMethodOf(generator, number.method, arguments, number.names);
  if (!drawn) return false;
  bool is_float = false;
  Ref tensor = TensorOfDrawn(drawn, &is_float);
  if (!tensor || is_float != number.is_float) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_TypeError, "another type of number was drawn");
    return false;
  }
  if (number.input >= 0) tensors_.emplace_back(number.input, std::move(tensor));
  return true;
}

bool DrawsOfCall::Draw(absl::Span<const DrawnNumber> all, absl::Span<const Ref> registers, const SizeValues& sizes) {
  const HookScope native(HookMode::kOff);
  for (const DrawnNumber& number : all) {
    const BorrowedRef generator = registers[static_cast<std::size_t>(number.generator)];
    const auto is_it = [&](const GeneratorState& kept) { return kept.generator() == generator; };
    bool done = true;
    if (std::none_of(states_.begin(), states_.end(), is_it)) {
      GeneratorState state;
      done = state.Take(generator);
      if (done) states_.push_back(std::move(state));
    }
    if (done && DrawOne(number, generator, sizes)) continue;
    Undo();
    return false;
  }
  return true;
}

void DrawsOfCall::PutInto(absl::Span<Ref> held, absl::Span<PyObject*> arguments) const {
  for (const auto& [input, tensor] : tensors_) {
    held[static_cast<std::size_t>(input)] = tensor;
    arguments[static_cast<std::size_t>(input)] = tensor;
  }
}

void DrawsOfCall::Undo() {
  const HookScope native(HookMode::kOff);
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  for (const GeneratorState& state : states_) {
    if (!state.PutBack()) PyErr_WriteUnraisable(state.generator());
  }
  states_.clear();
  PyErr_Restore(type, value, traceback);
}

}  // namespace framefuse
