#include "symbolic/calls/array_calls.h"

#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/tensor_numpy.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "frame_eval/import_module.h"
#include "guards/leaf/tensor.h"
#include "symbolic/calls/native_calls.h"
#include "symbolic/journals/array_memory.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/call_arguments.h"
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

constexpr const char* kLost = "an array of numpy whose tensor became another";

using Numbers = std::vector<std::int64_t>;

std::optional<Numbers> Known(c10::SymIntArrayRef symbolic) {
  Numbers all;
  for (const c10::SymInt& one : symbolic) {
    const std::optional<std::int64_t> known = one.maybe_as_int();
    if (!known) return std::nullopt;
    all.push_back(*known);
  }
  return all;
}

// As many numbers, laid out alike, without a value yet; null: how many is not known.
Ref EmptyArrayLike(const at::Tensor& t) {
  const std::optional<Numbers> sizes = Known(t.sym_sizes()), strides = Known(t.sym_strides());
  if (!sizes || !strides) return Ref();
  std::int64_t reach = 1;
  for (std::size_t i = 0; i < sizes->size(); ++i) reach += std::max<std::int64_t>((*sizes)[i] - 1, 0) * (*strides)[i];
  const tracing::Tracer::Suspended suspended;
  const at::Tensor memory = at::zeros(reach, at::TensorOptions().dtype(t.scalar_type()));
  return Ref::Steal(torch::utils::tensor_to_numpy(memory.as_strided(*sizes, *strides)));
}

// What view of `whole`, which begins where it does, has the places of `part`; an empty one: there is none.
struct ViewOf {
  const char* method = nullptr;
  Ref args;
};

Ref TupleOf(const Numbers& numbers) {
  Ref tuple = Ref::Steal(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
  for (std::size_t i = 0; tuple && i < numbers.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(numbers[i]));
  }
  return tuple;
}

// Torch warns of one that is not.
bool IsWriteable(BorrowedRef array) {
  const Ref flags = Ref::Steal(PyObject_GetAttrString(array, "flags"));
  const Ref may = flags ? Ref::Steal(PyObject_GetAttrString(flags, "writeable")) : Ref();
  return may.get() == Py_True;
}

ViewOf FindView(BorrowedRef whole, BorrowedRef part) {
  if (!IsWriteable(part)) return {};
  Ref both[2];
  {
    const tracing::Tracer::Suspended suspended;
    both[0] = TensorOfArray(whole);
    both[1] = TensorOfArray(part);
  }
  if (!both[0] || !both[1]) return {};
  const at::Tensor& w = THPVariable_Unpack(both[0].get());
  const at::Tensor& p = THPVariable_Unpack(both[1].get());
  const tracing::Tracer::Suspended suspended;
  if (w.data_ptr() != p.data_ptr() || w.scalar_type() != p.scalar_type()) return {};
  const Numbers sizes(p.sizes().begin(), p.sizes().end()), strides(p.strides().begin(), p.strides().end());
  if (w.is_contiguous() && p.is_contiguous() && w.numel() == p.numel()) {
    return {"view", Ref::Steal(PyTuple_Pack(1, TupleOf(sizes).get()))};
  }
  Numbers order;
  for (std::size_t i = 0; i < sizes.size() && w.dim() == p.dim(); ++i) {
    for (std::int64_t a = 0; a < w.dim(); ++a) {
      const bool taken = std::find(order.begin(), order.end(), a) != order.end();
      if (taken || w.size(a) != sizes[i] || w.stride(a) != strides[i]) continue;
      order.push_back(a);
      break;
    }
  }
  if (w.dim() == p.dim() && order.size() == sizes.size()) return {"permute", TupleOf(order)};
  return {"as_strided", Ref::Steal(PyTuple_Pack(2, TupleOf(sizes).get(), TupleOf(strides).get()))};
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
  const bool outside = t != nullptr && t->source != kNoSource;
  if (t != nullptr && t->memory_of) {
    if (HasLostItsTensor(*t)) return breaks_.Break(GraphBreakKind::kOpaqueObject, kLost);
    return natives_.CallTorch(act, MethodOfTensors("detach"), {ValueView(t->memory_of, kNoSource)}, BorrowedRef());
  }
  if (t != nullptr && t->made && !outside) return TensorOfMade(act, array.object);
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

// Of a view of what has the memory of a tensor, if it begins where that does.
Value ArrayCalls::TensorOfMade(Activation& act, BorrowedRef array) {
  Ref whole = Ref::Create(array);
  const Tracked* root = nullptr;
  while (whole && IsArray(whole) && root == nullptr) {
    const Tracked* t = objects_.Find(whole);
    if (t != nullptr && (t->memory_of || t->source != kNoSource)) root = t;
    if (root == nullptr) whole = Ref::Steal(PyObject_GetAttrString(whole, "base"));
  }
  PyErr_Clear();
  const ViewOf view = root == nullptr ? ViewOf() : FindView(whole, array);
  PyErr_Clear();
  if (view.method == nullptr) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "a tensor of an array that numpy makes of a tensor's");
  }
  const Value tensor = TensorOf(act, ValueView(whole, root->source));
  if (!tensor) return Value();
  ValueVector args = {tensor};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(view.args.get()); ++i) {
    args.push_back(ValueView(PyTuple_GET_ITEM(view.args.get(), i), kNoSource));
  }
  const Value made = natives_.CallTorch(act, MethodOfTensors(view.method), args, BorrowedRef());
  return made ? natives_.CallTorch(act, MethodOfTensors("detach"), {made}, BorrowedRef()) : Value();
}

// What is in it follows from guards. It is the tensor's memory from now on; a view may be one of memory from outside.
Value ArrayCalls::TensorOfNew(BorrowedRef array) {
  const Ref base = Ref::Steal(PyObject_GetAttrString(array, "base"));
  if (base.get() != Py_None) return breaks_.Break(GraphBreakKind::kOpaqueObject, "a tensor of a part of an array");
  const ValueView args[] = {ValueView(array, kNoSource)};
  if (!arguments_.PrepareNative(args[0])) return Value();
  static PyObject* const maker = [] {
    const Ref torch = ImportModule("torch");
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
  const Tracked* known = objects_.Find(tensor);
  // The entry makes the array before the tensor gets its new shape or memory.
  const bool rebound = known != nullptr && known->source != kNoSource && tracing::IsRebound(tensor);
  Ref array = plain && !rebound ? EmptyArrayLike(t) : Ref();
  if (!array) return std::nullopt;
  objects_.NoteArray(array, tensor);
  return Value{std::move(array), kNoSource};
}

}  // namespace framefuse
