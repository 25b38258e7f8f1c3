#include "symbolic/calls/sized_substitutes.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/tracing/sized_products.h"

namespace framefuse {
namespace {

struct Substitute {
  Ref replacement;
  bool of_numbers;
};

absl::flat_hash_map<PyObject*, Substitute>& Substitutes() {
  static auto* const substitutes = new absl::flat_hash_map<PyObject*, Substitute>;
  return *substitutes;
}

// It, or an item of a list or tuple.
bool IsSized(const SizeOperations& operations, BorrowedRef object, bool looks_into = true) {
  PyObject* o = object;
  if (IsFakeTensor(o)) {
    const c10::SymIntArrayRef sizes = THPVariable_Unpack(o).sym_sizes();
    return std::any_of(sizes.begin(), sizes.end(), [](const c10::SymInt& s) { return s.is_symbolic(); });
  }
  if (operations.Holds(object)) return true;
  if (!looks_into || !(PyList_CheckExact(o) || PyTuple_Check(o))) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    if (IsSized(operations, PySequence_Fast_GET_ITEM(o, i), false)) return true;
  }
  return false;
}

// Lists, and lists in them, are looked into, too.
bool HoldsNumber(const SizeOperations& operations, BorrowedRef object, int depth = 0) {
  constexpr int kDeepest = 8;
  PyObject* o = object;
  if (!PyList_CheckExact(o)) return operations.Holds(object);
  for (Py_ssize_t i = 0; depth < kDeepest && i < PyList_GET_SIZE(o); ++i) {
    if (HoldsNumber(operations, PyList_GET_ITEM(o, i), depth + 1)) return true;
  }
  return false;
}

}  // namespace

void AddSizedSubstitute(BorrowedRef callable, BorrowedRef replacement, bool of_numbers) {
  const auto [it, added] =
      Substitutes().insert_or_assign(callable.get(), Substitute{Ref::Create(replacement), of_numbers});
  if (added) Py_INCREF(callable.get());  // its address stays its own
}

void ReplaceProducts(bool replace) { tracing::ReplaceSizedProducts(replace); }

bool HasSizedSubstitute(BorrowedRef callable) { return Substitutes().contains(callable.get()); }

BorrowedRef SizedSubstitute(const SizeOperations& sizes, BorrowedRef callable, absl::Span<const ValueView> args) {
  const auto found = Substitutes().find(callable.get());
  if (found == Substitutes().end()) return BorrowedRef();
  const bool of_numbers = found->second.of_numbers;
  const auto is_sized = [&](const ValueView& v) {
    return of_numbers ? HoldsNumber(sizes, v.object) : IsSized(sizes, v.object);
  };
  return std::any_of(args.begin(), args.end(), is_sized) ? BorrowedRef(found->second.replacement) : BorrowedRef();
}

}  // namespace framefuse
