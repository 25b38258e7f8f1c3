#include "backends/fusion/cat_form.h"

#include <ATen/core/ivalue.h>

#include <algorithm>

#include "backends/fusion/pointwise.h"
#include "backends/graph/operators.h"

namespace framefuse::fusion {
namespace {

constexpr std::int64_t kVectorBytes = 16;

bool HasConstantShape(const ir::Value& v) {
  const auto constant = [](const ir::Dim& d) { return d.is_constant(); };
  return std::all_of(v.sizes.begin(), v.sizes.end(), constant) &&
         std::all_of(v.strides.begin(), v.strides.end(), constant);
}

bool IsEmpty(const ir::Value& v) {
  return std::any_of(v.sizes.begin(), v.sizes.end(), [](const ir::Dim& d) { return d == ir::Dim(0); });
}

}  // namespace

std::optional<CatForm> CatFormOf(const ir::Graph& g, const ir::Node& n, std::size_t most) {
  if (!ir::Is(n.op, ir::OpName::kCat) || n.outputs[0] == ir::kNoValue || n.args[0].kind != ir::Arg::Kind::kValueList) {
    return std::nullopt;
  }
  const ir::Value& out = g.value(n.outputs[0]);
  const auto rank = static_cast<std::int64_t>(out.sizes.size());
  if (n.args[1].kind != ir::Arg::Kind::kConstant || rank == 0 || !HasConstantShape(out)) return std::nullopt;
  if (out.layout != c10::Layout::Strided || !StorageOf(out.dtype) || IsEmpty(out)) return std::nullopt;
  const std::int64_t dim = n.args[1].constant.toInt();
  CatForm form{static_cast<std::size_t>(dim < 0 ? dim + rank : dim), n.args[0].values, {0}};
  if (form.pieces.size() < 2 || form.pieces.size() > most) return std::nullopt;
  for (ir::ValueId p : form.pieces) {
    const ir::Value& piece = g.value(p);
    if (piece.dtype != out.dtype || piece.device != out.device || piece.layout != out.layout) return std::nullopt;
    if (piece.sizes.size() != out.sizes.size() || !HasConstantShape(piece)) return std::nullopt;
    if (IsEmpty(piece)) return std::nullopt;
    form.bounds.push_back(form.bounds.back() + piece.sizes[form.dim].constant());
  }
  return form;
}

std::vector<std::int64_t> Numbers(const std::vector<ir::Dim>& dims) {
  std::vector<std::int64_t> out;
  for (const ir::Dim& d : dims) out.push_back(d.constant());
  return out;
}

std::vector<std::int64_t> OffsetsIn(const ir::Value& whole, const CatForm& form) {
  ir::ExprTable no_symbols;
  if (!HasConstantShape(whole) || !ir::IsDense(no_symbols, whole)) return {};
  std::vector<std::int64_t> offsets;
  for (std::size_t i = 0; i < form.pieces.size(); ++i) {
    const std::int64_t offset = form.bounds[i] * whole.strides[form.dim].constant();
    if (offset * static_cast<std::int64_t>(c10::elementSize(whole.dtype)) % kVectorBytes != 0) return {};
    offsets.push_back(offset);
  }
  return offsets;
}

}  // namespace framefuse::fusion
