#include "symbolic/protocols/number_indices.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/csrc/autograd/python_variable.h>

#include <optional>
#include <utility>
#include <vector>

#include "symbolic/journals/fakes.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/tracing/numbers.h"
#include "symbolic/tracing/sizes.h"

namespace framefuse {
namespace {

struct Selection {
  std::int64_t dim = 0;  // of the tensor that the selections before it leave
  Ref number;            // as torch takes it
};

struct Plan {
  std::vector<Selection> selections;
  std::vector<PyObject*> rest;
};

// A symbolic integer, of Python's or of numpy's.
bool IsNumber(const tracing::Numbers& numbers, PyObject* part) {
  return numbers.IsSymbolic(part) && PyIndex_Check(part) != 0;
}

// How many dimensions it takes; nothing: torch has ways of its own with it.
std::optional<std::int64_t> DimsTaken(const tracing::Numbers& numbers, PyObject* part) {
  if (IsNumber(numbers, part)) return 1;
  if (part == Py_None || part == Py_Ellipsis) return 0;
  if (PyLong_CheckExact(part) || PySlice_Check(part)) return 1;
  if (!THPVariable_Check(part)) return std::nullopt;
  const at::Tensor& t = THPVariable_Unpack(part);
  const bool mask = t.scalar_type() == at::kBool || t.scalar_type() == at::kByte;
  return mask ? t.dim() : 1;
}

// Of another one torch says in its own words what is wrong.
bool IsWithin(const tracing::Numbers& numbers, const at::Tensor& t, std::int64_t dim, BorrowedRef number) {
  tracing::Sizes& sizes = numbers.sizes();
  const std::int64_t size = sizes.HintOf(sizes.ToDim(t.sym_size(dim)));
  const std::int64_t place = sizes.HintOf(*numbers.Find(number));
  return -size <= place && place < size;
}

std::optional<Plan> PlanOf(const tracing::Numbers& numbers, const at::Tensor& t, absl::Span<PyObject* const> parts) {
  std::int64_t taken = 0, ellipses = 0, dim = 0;
  for (PyObject* part : parts) {
    const std::optional<std::int64_t> dims = DimsTaken(numbers, part);
    if (!dims) return std::nullopt;
    taken += *dims;
    ellipses += part == Py_Ellipsis ? 1 : 0;
  }
  if (taken > t.dim() || ellipses > 1) return std::nullopt;
  Plan plan;
  bool adds_dims = false;
  for (PyObject* part : parts) {
    adds_dims = adds_dims || part == Py_None;
    if (IsNumber(numbers, part)) {
      if (adds_dims) return std::nullopt;  // whose stride follows from the next one
      const std::int64_t selected = static_cast<std::int64_t>(plan.selections.size());
      if (!IsWithin(numbers, t, dim + selected, part)) return std::nullopt;
      plan.selections.push_back({dim, numbers.ToTorch(part)});
      continue;
    }
    dim += part == Py_Ellipsis ? t.dim() - taken : *DimsTaken(numbers, part);
    plan.rest.push_back(part);
  }
  return plan;
}

Ref TupleOf(absl::Span<PyObject* const> parts) {
  Ref tuple = Ref::Steal(PyTuple_New(static_cast<Py_ssize_t>(parts.size())));
  for (std::size_t i = 0; tuple && i < parts.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(parts[i]));
  }
  return tuple;
}

}  // namespace

namespace {
std::optional<Plan> PlanFor(const tracing::Numbers& numbers, BorrowedRef container, BorrowedRef key) {
  if (numbers.none() || !IsFakeTensor(container)) return std::nullopt;
  PyObject* const o = key;
  const bool one = IsNumber(numbers, o);
  if (!one && !(PyTuple_CheckExact(o) && numbers.Holds(key))) return std::nullopt;
  const bool is_heard = at::impl::PythonTorchFunctionTLS::stack_len() > 0;
  if (!THPVariable_CheckTypeExact(Py_TYPE(container.get())) || is_heard) return std::nullopt;
  const absl::Span<PyObject* const> parts(one ? &o : &PyTuple_GET_ITEM(o, 0),
                                          one ? 1 : static_cast<std::size_t>(PyTuple_GET_SIZE(o)));
  std::optional<Plan> plan = PlanOf(numbers, THPVariable_Unpack(container.get()), parts);
  return plan && plan->selections.empty() ? std::nullopt : std::move(plan);
}
}  // namespace

bool CanSelect(const tracing::Numbers& numbers, BorrowedRef container, BorrowedRef key) {
  return PlanFor(numbers, container, key).has_value();
}

NumberIndex SelectNumbers(const tracing::Numbers& numbers, NativeBoundary& boundary, BorrowedRef container,
                          BorrowedRef key) {
  const std::optional<Plan> plan = PlanFor(numbers, container, key);
  if (!plan) return {};
  Ref selected = Ref::Create(container);
  for (const Selection& s : plan->selections) {
    selected = Ref::Steal(boundary.RunAsLeaf(true, [&] {
      return PyObject_CallMethod(selected, "select", "LO", static_cast<long long>(s.dim), s.number.get());
    }));
    if (!selected) return {};
  }
  if (plan->rest.empty()) return {std::move(selected), Ref::Create(Py_Ellipsis)};
  Ref rest = TupleOf(plan->rest);
  if (Ref sized = numbers.ToTorch(rest)) rest = std::move(sized);
  return {std::move(selected), std::move(rest)};
}

}  // namespace framefuse
