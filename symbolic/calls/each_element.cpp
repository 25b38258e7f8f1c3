#include "symbolic/calls/each_element.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "symbolic/journals/fakes.h"
#include "symbolic/messages/code_text.h"

namespace framefuse {
namespace {

bool IsList(BorrowedRef o) { return PyList_CheckExact(o.get()) || PyTuple_CheckExact(o.get()); }
std::size_t SizeOf(BorrowedRef list) { return static_cast<std::size_t>(PySequence_Fast_GET_SIZE(list.get())); }
BorrowedRef ItemOf(BorrowedRef list, std::size_t i) {
  return PySequence_Fast_GET_ITEM(list.get(), static_cast<Py_ssize_t>(i));
}

bool HoldsSymbolic(const tracing::Numbers& numbers, BorrowedRef object) {
  if (!IsList(object)) return numbers.IsSymbolic(object);
  for (std::size_t i = 0; i < SizeOf(object); ++i) {
    if (numbers.IsSymbolic(ItemOf(object, i))) return true;
  }
  return false;
}

// What a backward pass would go through is another history than the list's.
bool AreTensorsWithoutHistory(BorrowedRef list) {
  if (!IsList(list) || SizeOf(list) == 0) return false;
  for (std::size_t i = 0; i < SizeOf(list); ++i) {
    const BorrowedRef item = ItemOf(list, i);
    if (!IsFakeTensor(item)) return false;
    if (at::GradMode::is_enabled() && THPVariable_Unpack(item.get()).requires_grad()) return false;
  }
  return true;
}

bool HasPlainForm(std::string_view name) {
  for (std::string_view known : {"add", "sub", "mul", "div", "lerp", "addcmul", "addcdiv", "pow"}) {
    if (name == known || (name.size() == known.size() + 1 && name.starts_with(known) && name.ends_with('_')))
      return true;
  }
  return false;
}

bool HasPlainName(BorrowedRef keyword) {
  const auto is = [&](const char* text) { return PyUnicode_CompareWithASCIIString(keyword, text) == 0; };
  return is("alpha") || is("value") || is("weight");
}

}  // namespace

std::optional<EachElement> SplitForeach(const tracing::Numbers& numbers, BorrowedRef callable,
                                        absl::Span<const ValueView> args, BorrowedRef kwnames) {
  constexpr std::string_view kPrefix = "_foreach_";
  constexpr std::size_t kPlaceOfValue = 3;  // addcmul(tensors, factors, others, value)
  std::string_view name = NameOfCallable(callable);
  if (numbers.none() || args.empty() || !name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const auto holds = [&](const ValueView& v) { return HoldsSymbolic(numbers, v.object); };
  if (!HasPlainForm(name) || std::none_of(args.begin(), args.end(), holds)) return std::nullopt;
  const std::size_t positional = PositionalCount(args, kwnames);
  const std::size_t count = IsList(args[0].object) ? SizeOf(args[0].object) : 0;
  if (positional == 0 || !AreTensorsWithoutHistory(args[0].object)) return std::nullopt;
  for (const ValueView& v : args) {
    if (IsList(v.object) && SizeOf(v.object) != count) return std::nullopt;
  }
  for (std::size_t i = positional; i < args.size(); ++i) {
    if (!HasPlainName(PyTuple_GET_ITEM(kwnames.get(), static_cast<Py_ssize_t>(i - positional)))) return std::nullopt;
  }
  EachElement each;
  each.in_place = name.ends_with('_');
  each.method =
      Ref::Steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(THPVariableClass), std::string(name).c_str()));
  each.kwnames = Ref::Create(kwnames);
  if (positional > kPlaceOfValue) {
    if (kwnames || !name.starts_with("addc")) return std::nullopt;
    each.kwnames = Ref::Steal(Py_BuildValue("(s)", "value"));
  }
  for (std::size_t i = 0; i < count; ++i) {
    ValueVector& call = each.calls.emplace_back();
    for (const ValueView& v : args) call.push_back(IsList(v.object) ? ValueView(ItemOf(v.object, i), kNoSource) : v);
  }
  return each.method ? std::optional(std::move(each)) : std::nullopt;
}

}  // namespace framefuse
