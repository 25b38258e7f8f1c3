#include "backends/runtime/layout_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace framefuse {
namespace {

std::vector<std::int64_t> Numbers(absl::Span<const ir::Dim> dims, absl::Span<const std::int64_t> exprs) {
  std::vector<std::int64_t> numbers;
  for (const ir::Dim& d : dims) {
    numbers.push_back(d.is_constant() ? d.constant() : exprs[static_cast<std::size_t>(d.expr)]);
  }
  return numbers;
}

// Strides of sizes of one, or of a tensor without elements, reach nothing.
bool IsAsSaid(const at::Tensor& t, const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides) {
  if (t.sizes() != at::IntArrayRef(sizes)) return false;
  for (std::size_t d = 0; d < strides.size() && t.numel() > 0; ++d) {
    if (sizes[d] > 1 && t.strides()[d] != strides[d]) return false;
  }
  return true;
}

// Known before the graph runs.
bool IsKnown(const ir::Graph& graph, absl::Span<const ir::Dim> dims) {
  return std::all_of(dims.begin(), dims.end(), [&](const ir::Dim& d) { return graph.exprs.LastUnbacked(d) < 0; });
}

}  // namespace

absl::Status CheckLayouts(const ir::Graph& graph, absl::Span<const ir::ValueId> results,
                          absl::Span<const c10::IValue> slots, absl::Span<const std::int64_t> exprs) {
  for (const ir::ValueId id : results) {
    if (id == ir::kNoValue || !slots[static_cast<std::size_t>(id)].isTensor()) continue;
    const at::Tensor& t = slots[static_cast<std::size_t>(id)].toTensor();
    const ir::Value& v = graph.value(id);
    if (!t.defined() || v.layout != c10::Layout::Strided || t.layout() != c10::Layout::Strided) continue;
    if (!IsKnown(graph, v.sizes) || !IsKnown(graph, v.strides)) continue;
    const std::vector<std::int64_t> sizes = Numbers(v.sizes, exprs), strides = Numbers(v.strides, exprs);
    if (IsAsSaid(t, sizes, strides)) continue;
    return absl::InternalError(absl::StrCat("%", id, " has sizes [", absl::StrJoin(t.sizes(), ", "), "] and strides [",
                                            absl::StrJoin(t.strides(), ", "), "], the graph says [",
                                            absl::StrJoin(sizes, ", "), "] and [", absl::StrJoin(strides, ", "), "]"));
  }
  return absl::OkStatus();
}

}  // namespace framefuse
