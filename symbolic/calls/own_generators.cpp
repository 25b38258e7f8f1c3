#include "symbolic/calls/own_generators.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "symbolic/calls/native_calls.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/fx_journal.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/torch_generators.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

constexpr std::int64_t kMostNumbers = 1 << 20;  // the entry keeps them

bool IsFactory(std::string_view name) {
  return name == "rand" || name == "randn" || name == "randint" || name == "randperm" || name == "normal";
}

// Fills a tensor with numbers that depend on nothing in it.
bool IsFilling(std::string_view name) {
  return name == "normal_" || name == "uniform_" || name == "exponential_" || name == "random_" ||
         name == "bernoulli_" || name == "geometric_" || name == "cauchy_" || name == "log_normal_";
}

// No two of its numbers are one.
bool HoldsEachOnce(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides) {
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 1) steps.emplace_back(strides[i], sizes[i]);
  }
  std::sort(steps.begin(), steps.end());
  std::int64_t reach = 0;
  for (const auto& [stride, size] : steps) {
    if (stride <= reach) return false;
    reach += (size - 1) * stride;
  }
  return true;
}

// Of numbers of its own, laid out alike; null: no derivative or size may be lost.
Ref EmptyLike(const at::Tensor& t) {
  const bool plain = t.device().is_cpu() && t.layout() == c10::kStrided && !t.is_conj() && !t.is_neg() &&
                     !(t.requires_grad() && c10::GradMode::is_enabled());
  if (!plain || t.sym_numel() > kMostNumbers) return Ref();
  std::vector<std::int64_t> sizes, strides;
  for (const c10::SymInt& size : t.sym_sizes()) sizes.push_back(size.guard_int(__FILE__, __LINE__));
  for (const c10::SymInt& stride : t.sym_strides()) strides.push_back(stride.guard_int(__FILE__, __LINE__));
  if (!HoldsEachOnce(sizes, strides)) return Ref();
  const tracing::Tracer::Suspended suspended;
  return Ref::Steal(THPVariable_Wrap(at::empty_strided(sizes, strides, at::TensorOptions().dtype(t.scalar_type()))));
}

// Also in a list of sizes, where torch reads it.
bool ReadsFake(absl::Span<const ValueView> args) {
  for (const ValueView& v : args) {
    PyObject* o = v.object.get();
    if (!PyList_Check(o) && !PyTuple_Check(o)) continue;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      if (IsFakeTensor(PySequence_Fast_GET_ITEM(o, i))) return true;
    }
  }
  return AnyFake(args);
}

bool IsOnCpu(BorrowedRef generator) {
  const Ref device = Ref::Steal(PyObject_GetAttrString(generator, "device"));
  const Ref type = device ? Ref::Steal(PyObject_GetAttrString(device, "type")) : Ref();
  return type && PyUnicode_CompareWithASCIIString(type, "cpu") == 0;
}

}  // namespace

OwnGenerators::OwnGenerators(Journals& journals, NativeCalls& natives)
    : breaks_(journals.breaks()),
      objects_(journals.objects()),
      arguments_(journals.arguments()),
      fx_(journals.fx()),
      natives_(natives) {}

Value OwnGenerators::Call(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const auto refuse = [&] { return breaks_.Break(GraphBreakKind::kRandomState, DescribeCallable(callable)); };
  const bool makes = PyType_Check(callable.get());
  const bool own =
      makes || (!args.empty() && IsTorchGenerator(args[0].object) && objects_.Find(args[0].object) == nullptr);
  if (!own || fx_.keep_values()) return refuse();  // an FX graph runs the calls themselves
  if (!arguments_.PrepareAll(args)) return Value();
  Value result = natives_.CallNative(callable, args, kwnames);
  if (result && makes && !IsOnCpu(result.object)) return refuse();
  return result;
}

BorrowedRef OwnGenerators::GivenTo(absl::Span<const ValueView> args, BorrowedRef kwnames) const {
  const Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames.get()) : 0;
  for (Py_ssize_t i = 0; i < named; ++i) {
    const BorrowedRef given = args[args.size() - static_cast<std::size_t>(named - i)].object;
    if (IsTorchGenerator(given) && objects_.Find(given) == nullptr) return given;
  }
  return BorrowedRef();
}

std::optional<Value> OwnGenerators::Draw(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const BorrowedRef generator = GivenTo(args, kwnames);
  if (!generator) return std::nullopt;
  if (callable.type() == &PyMethodDescr_Type && IsFilling(NameOfCallable(callable)) && IsFakeTensor(args[0].object) &&
      !ReadsFake(args.subspan(1))) {
    return Fill(callable, args, kwnames);
  }
  if (!PyCFunction_Check(callable.get()) || !IsFactory(NameOfCallable(callable)) || ReadsFake(args)) {
    return breaks_.Break(GraphBreakKind::kRandomState, DescribeCallable(callable));
  }
  if (!arguments_.PrepareAll(args)) return Value();
  Value drawn = natives_.MakeHostTensor(callable, args, kwnames);
  const bool many = drawn && THPVariable_Unpack(drawn.object.get()).sym_numel() > kMostNumbers;
  if (many) drawn = breaks_.Break(GraphBreakKind::kRandomState, "a draw of more than a million numbers");
  return drawn;
}

// What is drawn stands for the tensor's own numbers.
Value OwnGenerators::Fill(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const Ref empty = EmptyLike(THPVariable_Unpack(args[0].object.get()));
  if (!empty) return breaks_.Break(GraphBreakKind::kRandomState, DescribeCallable(callable));
  std::vector<ValueView> all(args.begin(), args.end());
  all[0] = ValueView(empty, kNoSource);
  if (!arguments_.PrepareAll(absl::MakeConstSpan(all).subspan(1))) return Value();
  const Value drawn = natives_.MakeHostTensor(callable, all, kwnames);
  if (!drawn) return Value();
  static PyObject* const copies = PyObject_GetAttrString(THPVariableClass, "copy_");
  const ValueView into[] = {args[0], drawn};
  return natives_.CallNative(copies, into, BorrowedRef());
}

}  // namespace framefuse
