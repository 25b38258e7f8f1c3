// CatForm: a concatenation of a few tensors of constant sizes, whose pieces kernels may write where they belong: what
// sink_cats.h and the placed pieces of a plan (places.h) are about.
#ifndef FRAMEFUSE_BACKENDS_FUSION_CAT_FORM_H_
#define FRAMEFUSE_BACKENDS_FUSION_CAT_FORM_H_

#include <optional>
#include <vector>

#include "backends/graph/graph.h"

namespace framefuse::fusion {

struct CatForm {
  std::size_t dim = 0;
  std::vector<ir::ValueId> pieces;
  std::vector<std::int64_t> bounds;  // along dim: where each piece begins, and the end
};

// Each piece is a kernel's result of its own: many are better copied at once.
inline constexpr std::size_t kMostPieces = 4;

// Empty if the node is no such concatenation, or one of no elements.
std::optional<CatForm> CatFormOf(const ir::Graph& graph, const ir::Node& node, std::size_t most = kMostPieces);

// Sizes or strides of what has constant ones.
std::vector<std::int64_t> Numbers(const std::vector<ir::Dim>& dims);

// Where the pieces begin in the memory of a tensor that is laid out as `whole`, in elements. Empty if that is not for
// kernels: `whole` has holes, or a piece does not begin at a vector.
std::vector<std::int64_t> OffsetsIn(const ir::Value& whole, const CatForm& form);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_CAT_FORM_H_
