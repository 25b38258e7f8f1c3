#include "backends/runtime/in_place_form.h"

#include <algorithm>
#include <optional>
#include <string>

#include "backends/graph/collectives.h"
#include "backends/graph/input_writes.h"
#include "backends/graph/operators.h"
#include "backends/passes/functional_forms.h"
#include "common/index.h"

namespace framefuse {
namespace {

using ir::OpName;

constexpr ir::OpNames kWriteParts{OpName::kIndexAdd,        OpName::kIndexCopy,  OpName::kIndexPut,
                                  OpName::kScatterSrc,      OpName::kScatterAdd, OpName::kScatterValue,
                                  OpName::kScatterReduceTwo};

// "aten.scatter.src" → "aten.scatter_.src"
std::string InPlaceName(const std::string& name) {
  const std::size_t overload = name.find('.', name.find('.') + 1);
  return overload == std::string::npos ? name + "_" : name.substr(0, overload) + "_" + name.substr(overload);
}

std::int64_t RankOfFirst(const ir::Graph& graph, const ir::Node& n) {
  return static_cast<std::int64_t>(graph.value(n.args[0].value).rank());
}

// None: not known.
std::optional<std::vector<CheckedIndex>> IndicesOf(const ir::Graph& graph, const ir::Node& n) {
  std::vector<CheckedIndex> found;
  const auto add = [&](ir::ValueId v, std::int64_t dim, bool may_be_negative) {
    const c10::ScalarType dtype = graph.value(v).dtype;
    if (dtype != c10::kLong && dtype != c10::kInt) return false;
    found.push_back({v, dim, may_be_negative});
    return true;
  };
  if (ir::Is(n.op, OpName::kIndexCopy)) {
    if (n.args[1].kind != ir::Arg::Kind::kConstant || n.args[2].kind != ir::Arg::Kind::kValue) return std::nullopt;
    std::int64_t dim = n.args[1].constant.toInt();
    if (dim < 0) dim += RankOfFirst(graph, n);
    if (dim < 0 || dim >= RankOfFirst(graph, n) || !add(n.args[2].value, dim, false)) return std::nullopt;
    return found;
  }
  if (!ir::Is(n.op, OpName::kIndexPut) || n.args[1].kind != ir::Arg::Kind::kValueList) return std::nullopt;
  for (std::size_t d = 0; d < n.args[1].values.size(); ++d) {
    const ir::ValueId v = n.args[1].values[d];
    if (v != ir::kNoValue && !add(v, static_cast<std::int64_t>(d), true)) return std::nullopt;
  }
  return found;
}

template <typename Index>
bool AllWithin(const at::Tensor& index, std::int64_t first, std::int64_t size) {
  const Index* const data = index.const_data_ptr<Index>();
  return std::all_of(data, data + index.numel(), [&](Index i) { return i >= first && i < size; });
}

}  // namespace

InPlaceForm InPlaceFormOf(const ir::Graph& graph, const ir::Node& n) {
  const bool collective = ir::SpeaksToOthers(n);
  if (!kWriteParts.contains(n.op) && !collective) return {};
  if (n.args.empty() || n.args[0].kind != ir::Arg::Kind::kValue) return {};
  const absl::StatusOr<ir::OpId> found = ir::FindOp(InPlaceName(n.op->name()));
  if (!found.ok()) return {};
  const FunctionalForm back = FunctionalFormOf(**found);
  if (back.op != n.op || back.written != std::vector<std::int32_t>{0}) return {};
  if (collective && c10::isComplexType(graph.value(n.args[0].value).dtype)) return {};
  if (collective || !ir::MayRaise(graph, n)) return {*found, {}};
  std::optional<std::vector<CheckedIndex>> indices = IndicesOf(graph, n);
  return indices ? InPlaceForm{*found, *std::move(indices)} : InPlaceForm{};
}

bool ChecksTheSame(const ir::Graph& graph, const ir::Node& a, const ir::Node& b) {
  const auto mine = IndicesOf(graph, a), others = IndicesOf(graph, b);
  if (a.op != b.op || !mine || mine != others) return false;
  const ir::Value &first = graph.value(a.args[0].value), &second = graph.value(b.args[0].value);
  return std::all_of(mine->begin(), mine->end(),
                     [&](const CheckedIndex& c) { return first.sizes[At(c.dim)] == second.sizes[At(c.dim)]; });
}

bool AreWithin(const std::vector<CheckedIndex>& indices, const at::Tensor& self,
               absl::FunctionRef<const at::Tensor&(ir::ValueId)> value) {
  return std::all_of(indices.begin(), indices.end(), [&](const CheckedIndex& c) {
    const at::Tensor& index = value(c.index);
    if (!index.device().is_cpu() || !index.is_contiguous() || c.dim >= self.dim()) return false;
    const std::int64_t size = self.size(c.dim), first = c.may_be_negative ? -size : 0;
    return index.scalar_type() == c10::kLong ? AllWithin<std::int64_t>(index, first, size)
                                             : AllWithin<std::int32_t>(index, first, size);
  });
}

}  // namespace framefuse
