// What the decompositions share, and their rows. A rule takes a node and returns whether it wrote another form of it.
#ifndef FRAMEFUSE_BACKENDS_FUSION_DECOMPOSE_RULES_H_
#define FRAMEFUSE_BACKENDS_FUSION_DECOMPOSE_RULES_H_

#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "backends/fusion/node_writer.h"
#include "backends/graph/graph.h"

namespace framefuse::fusion {

using Dims = std::vector<std::int64_t>;
using ir::OpName;

// Whether it wrote another form of the node.
using Decomposition = bool (*)(ir::Graph& g, const ir::Node& n, NodeWriter w);
using DecompositionRow = std::pair<ir::OpName, Decomposition>;

// Of a node whose first result is used.
template <Decomposition rule>
bool OfFirst(ir::Graph& g, const ir::Node& n, NodeWriter w) {
  return !n.outputs.empty() && n.outputs[0] != ir::kNoValue && rule(g, n, w);
}

bool IsGiven(const ir::Arg& arg);
// The type that a half is computed in.
c10::ScalarType Wide(c10::ScalarType type);
bool IsRealFloat(const ir::Value& v);
// `out` is `of` in its own type and shape. If that is another, both are contiguous.
void InShape(ir::Graph& g, NodeWriter& w, ir::ValueId out, ir::ValueId of);
Dims LastDims(const ir::Value& v, std::size_t count);
ir::ValueId InOrder(ir::Graph& g, NodeWriter& w,
                    ir::ValueId x);  // x, or its contiguous copy: it fuses with its readers
std::optional<Dims> Constants(const std::vector<ir::Dim>& dims);  // nothing: one is no number

struct Moments {
  ir::ValueId mean, centred, variance;
};
// Over dims; the sum of squares is divided by `divisor`, else by how many there are.
Moments MomentsOf(NodeWriter& w, ir::ValueId x, const Dims& dims, std::optional<ir::Dim> divisor = std::nullopt);

// A row an operator. Layer, group and batch norm, forward and backward.
absl::Span<const DecompositionRow> NormRows();
absl::Span<const DecompositionRow> BatchNormRows();
absl::Span<const DecompositionRow> PoolingRows();
// A largest one's index that nobody uses is no result any more: what has indices stays ATen's.
void DropUnusedIndices(ir::Graph& g);
// Losses, forward and backward.
absl::Span<const DecompositionRow> LossRows();
// Activations and arithmetic that are formulas of other pointwise operators.
absl::Span<const DecompositionRow> PointwiseRows();

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_DECOMPOSE_RULES_H_
