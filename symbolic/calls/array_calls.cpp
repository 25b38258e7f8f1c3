#include "symbolic/calls/array_calls.h"

#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/tensor_numpy.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "guards/leaf/tensor.h"
#include "symbolic/calls/native_calls.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/number_arrays.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

// Types of numbers that numpy has, too.
bool HasTypeOfNumpy(c10::ScalarType type) {
  using enum c10::ScalarType;
  constexpr c10::ScalarType kTypes[] = {Bool, Byte, Char, Short, Int, Long, Half, Float, Double};
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

// As many numbers, without a value yet; null: how many is not known.
Ref EmptyArrayLike(const at::Tensor& t) {
  std::vector<std::int64_t> sizes;
  for (const c10::SymInt& size : t.sym_sizes()) {
    const std::optional<std::int64_t> known = size.maybe_as_int();
    if (!known) return Ref();
    sizes.push_back(*known);
  }
  const tracing::Tracer::Suspended suspended;
  return Ref::Steal(torch::utils::tensor_to_numpy(at::zeros(sizes, at::TensorOptions().dtype(t.scalar_type()))));
}

Ref MethodOfTensors(const char* name) {
  return Ref::Steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(THPVariableClass), name));
}

}  // namespace

ArrayCalls::ArrayCalls(Journals& journals, NativeCalls& natives)
    : breaks_(journals.breaks()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      arguments_(journals.arguments()),
      natives_(natives) {}

Value ArrayCalls::TensorOf(Activation& act, ValueView array) {
  Tracked* t = objects_.Find(array.object);
  if (t != nullptr && t->memory_of) {
    return natives_.CallTorch(act, MethodOfTensors("detach"), {ValueView(t->memory_of, kNoSource)}, BorrowedRef());
  }
  if (t == nullptr) return TensorOfNew(array.object);
  if (c10::InferenceMode::is_enabled()) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "an array that a tensor shares its memory with");
  }
  const std::vector<TensorInput>& inputs = objects_.tensor_inputs();
  if (std::any_of(inputs.begin(), inputs.end(), [](const TensorInput& in) { return IsWritten(in.fake); })) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject,
                         "an array of numpy behind a write to a tensor, which may share its memory");
  }
  Ref tensor = [&] {
    const tracing::Tracer::Suspended suspended;
    return TensorOfArray(t->original);
  }();
  if (!tensor) return breaks_.Break(GraphBreakKind::kOpaqueObject, "an array that torch takes no tensor of");
  const auto is_of_it = [&](const TensorInput& in) {
    const Source& from = reads_.sources()[in.source];
    return from.kind == SourceKind::kTensorOfArray && from.base == t->source;
  };
  const auto index = static_cast<std::int32_t>(std::count_if(inputs.begin(), inputs.end(), is_of_it));
  return objects_.Adopt(tensor, reads_.sources().Intern(SourceKind::kTensorOfArray, t->source, index, nullptr));
}

// What is in it follows from guards. It is the tensor's memory from now on; a view may be one of memory from outside.
Value ArrayCalls::TensorOfNew(BorrowedRef array) {
  const Ref base = Ref::Steal(PyObject_GetAttrString(array, "base"));
  if (base.get() != Py_None) return breaks_.Break(GraphBreakKind::kOpaqueObject, "a tensor of a part of an array");
  const ValueView args[] = {ValueView(array, kNoSource)};
  if (!arguments_.PrepareNative(args[0])) return Value();
  static PyObject* const maker = [] {
    const Ref torch = Ref::Steal(PyImport_ImportModule("torch"));
    return torch ? PyObject_GetAttrString(torch, "from_numpy") : nullptr;
  }();
  Value tensor = natives_.MakeHostTensor(maker, args, BorrowedRef());
  if (!tensor) return Value();
  objects_.NoteArray(array, tensor.object);
  return tensor;
}

std::optional<Value> ArrayCalls::ArrayOf(BorrowedRef tensor) {
  const at::Tensor& t = THPVariable_Unpack(tensor.get());
  const bool plain = t.device().is_cpu() && t.layout() == c10::Layout::Strided && !t.requires_grad() && !t.is_conj() &&
                     !t.is_neg() && HasTypeOfNumpy(t.scalar_type()) &&
                     tensor.type() == reinterpret_cast<PyTypeObject*>(THPVariableClass);
  Ref array = plain ? EmptyArrayLike(t) : Ref();
  if (!array) return std::nullopt;
  objects_.NoteArray(array, tensor);
  return Value{std::move(array), kNoSource};
}

}  // namespace framefuse
