// See cat_form.h. Owner: backends/fusion.
#include "backends/fusion/cat_form.h"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <utility>

#include "backends/fusion/pointwise.h"

namespace framefuse::fusion {
namespace {

// Each piece is a kernel's result of its own: many are better copied at once.
constexpr std::size_t kMostPieces = 4;
constexpr std::int64_t kVectorBytes = 16;

bool HasConstantShape(const ir::Value& v) {
  const auto constant = [](const ir::Dim& d) { return d.is_constant(); };
  return std::all_of(v.sizes.begin(), v.sizes.end(), constant) &&
         std::all_of(v.strides.begin(), v.strides.end(), constant);
}

// Each element of its memory is one of its own.
bool IsDense(const ir::Value& v) {
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // stride, size
  for (std::size_t d = 0; d < v.sizes.size(); ++d) {
    if (v.sizes[d].value != 1) steps.emplace_back(v.strides[d].value, v.sizes[d].value);
  }
  std::sort(steps.begin(), steps.end());
  std::int64_t next = 1;
  for (const auto& [stride, size] : steps) {
    if (stride != next) return false;
    next *= size;
  }
  return true;
}

}  // namespace

std::optional<CatForm> CatFormOf(const ir::Graph& g, const ir::Node& n) {
  if (n.op->name() != "aten.cat" || n.outputs[0] == ir::kNoValue || n.args[0].kind != ir::Arg::Kind::kValueList) {
    return std::nullopt;
  }
  const ir::Value& out = g.value(n.outputs[0]);
  const auto rank = static_cast<std::int64_t>(out.sizes.size());
  if (n.args[1].kind != ir::Arg::Kind::kConstant || rank == 0 || !HasConstantShape(out)) return std::nullopt;
  if (out.layout != c10::Layout::Strided || !StorageOf(out.dtype)) return std::nullopt;
  const std::int64_t dim = n.args[1].constant.toInt();
  CatForm form{static_cast<std::size_t>(dim < 0 ? dim + rank : dim), n.args[0].values, {0}};
  if (form.pieces.size() < 2 || form.pieces.size() > kMostPieces) return std::nullopt;
  for (ir::ValueId p : form.pieces) {
    const ir::Value& piece = g.value(p);
    if (piece.dtype != out.dtype || piece.device != out.device || piece.layout != out.layout) return std::nullopt;
    if (piece.sizes.size() != out.sizes.size() || !HasConstantShape(piece)) return std::nullopt;
    const std::int64_t size = piece.sizes[form.dim].value;
    if (size == 0) return std::nullopt;
    form.bounds.push_back(form.bounds.back() + size);
  }
  return form;
}

std::vector<std::int64_t> OffsetsIn(const ir::Value& whole, const CatForm& form) {
  if (!HasConstantShape(whole) || !IsDense(whole)) return {};
  std::vector<std::int64_t> offsets;
  for (std::size_t i = 0; i < form.pieces.size(); ++i) {
    const std::int64_t offset = form.bounds[i] * whole.strides[form.dim].value;
    if (offset * static_cast<std::int64_t>(c10::elementSize(whole.dtype)) % kVectorBytes != 0) return {};
    offsets.push_back(offset);
  }
  return offsets;
}

}  // namespace framefuse::fusion
