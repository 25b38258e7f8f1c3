#include "backends/fusion/gather.h"

#include <algorithm>
#include <string>

#include "backends/fusion/pointwise.h"
#include "backends/graph/dim_algebra.h"
#include "backends/graph/operators.h"

namespace framefuse::fusion {
namespace {

using ir::Arg;
using ir::kNoValue;
using ir::Node;
using ir::Value;

constexpr std::int64_t kLeastRow = 32;  // elements; shorter ones are not worth their index

std::optional<GatherForm> Named(const Node& node) {
  const ir::OpName name = ir::NameOf(node.op);
  const auto tensor = [&](std::size_t a) {
    return node.args[a].kind == Arg::Kind::kValue ? node.args[a].value : kNoValue;
  };
  if (name == ir::OpName::kEmbedding) return GatherForm{tensor(0), tensor(1), 0, false};
  if (name == ir::OpName::kIndexSelect) {
    const bool first = node.args[1].kind == Arg::Kind::kConstant && node.args[1].constant.toInt() == 0;
    return first ? std::optional(GatherForm{tensor(0), tensor(2), 0, false}) : std::nullopt;
  }
  if (name != ir::OpName::kIndexTensor || node.args[1].kind != Arg::Kind::kValueList) return std::nullopt;
  const std::vector<ir::ValueId>& indices = node.args[1].values;
  if (indices.size() != 1 || indices[0] == kNoValue) return std::nullopt;
  return GatherForm{tensor(0), indices[0], 0, /*wraps=*/true};
}

bool IsIndex(c10::ScalarType type) { return type == c10::ScalarType::Long || type == c10::ScalarType::Int; }

}  // namespace

std::optional<GatherForm> GatherOf(const ir::Graph& graph, const Node& node) {
  if (node.outputs.size() != 1 || node.outputs[0] == kNoValue || node.args.size() < 2) return std::nullopt;
  std::optional<GatherForm> form = Named(node);
  if (!form || form->table == kNoValue || form->index == kNoValue || form->table == form->index) return std::nullopt;
  const Value &table = graph.value(form->table), &index = graph.value(form->index), &out = graph.value(node.outputs[0]);
  if (!out.device.is_cpu() && !out.device.is_cuda()) return std::nullopt;
  if (table.device != out.device || index.device != out.device || table.dtype != out.dtype) return std::nullopt;
  if (table.layout != c10::Layout::Strided || index.layout != c10::Layout::Strided) return std::nullopt;
  if (!StorageOf(table.dtype) || !IsIndex(index.dtype) || index.sizes.empty() || table.sizes.size() < 2)
    return std::nullopt;
  std::vector<ir::Dim> sizes = index.sizes;
  sizes.insert(sizes.end(), table.sizes.begin() + 1, table.sizes.end());
  if (out.sizes != sizes || ir::LowestOf(graph.exprs, table.sizes[0]).value_or(0) < 1) return std::nullopt;
  std::int64_t row = 1;
  for (std::size_t d = 1; d < table.sizes.size(); ++d)
    row *= std::min<std::int64_t>(graph.exprs.Hint(table.sizes[d]), kLeastRow);
  if (row < kLeastRow) return std::nullopt;
  form->index_rank = index.sizes.size();
  return form;
}

}  // namespace framefuse::fusion
