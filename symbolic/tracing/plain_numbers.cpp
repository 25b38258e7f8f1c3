#include "symbolic/tracing/plain_numbers.h"

#include "symbolic/tracing/error_texts.h"

#include <ATen/core/stack.h>

#include <algorithm>

namespace framefuse::tracing {
namespace {

bool IsSymbolic(const c10::IValue& v) { return v.isSymInt() || v.isSymFloat() || IsSymbolicList(v); }

}  // namespace

bool IsSymbolicList(const c10::IValue& v) {
  if (!v.isList()) return false;
  for (const c10::IValue& e : v.toListRef()) {
    if (e.isSymInt()) return true;
  }
  return false;
}

std::optional<c10::IValue> Plain(const c10::IValue& v) {
  if (v.isSymInt()) return v.toSymInt().guard_int(__FILE__, __LINE__);
  if (v.isSymFloat()) return v.toSymFloat().guard_float(__FILE__, __LINE__);
  if (!IsSymbolicList(v)) return std::nullopt;
  c10::List<std::int64_t> list;
  for (const c10::SymInt& e : v.toSymIntVector()) list.push_back(e.guard_int(__FILE__, __LINE__));
  return list;
}

void CallComposite(const c10::KernelFunction& kernel, const OpTraits& traits, ir::Graph& graph,
                   torch::jit::Stack* stack) {
  const auto first = stack->size() - static_cast<std::size_t>(traits.num_arguments);
  const auto has_symbols = [&] {
    return std::any_of(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end(), IsSymbolic);
  };
  if (traits.op->mutates() || !has_symbols()) return kernel.callBoxed(traits.handle, c10::DispatchKeySet(), stack);
  const std::size_t nodes = graph.nodes.size();
  const torch::jit::Stack arguments(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
  try {
    return kernel.callBoxed(traits.handle, c10::DispatchKeySet(), stack);
  } catch (const c10::Error& e) {
    if (!IsAboutSymbols(e.what_without_backtrace())) throw;
  }
  graph.nodes.resize(nodes);
  stack->resize(first);
  for (const c10::IValue& v : arguments) stack->push_back(Plain(v).value_or(v));
  kernel.callBoxed(traits.handle, c10::DispatchKeySet(), stack);
}

}  // namespace framefuse::tracing
