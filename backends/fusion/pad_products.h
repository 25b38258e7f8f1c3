// PadProducts: a product of halves whose rows are no multiple of 16 bytes takes a GPU several times as long as one
// whose rows are. Where that is more than copies cost, its operands are padded with zeros, and the result is cut out.
#ifndef FRAMEFUSE_BACKENDS_FUSION_PAD_PRODUCTS_H_
#define FRAMEFUSE_BACKENDS_FUSION_PAD_PRODUCTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/graph/graph.h"

namespace framefuse::fusion {

// A pass over a functional graph; nothing if config.rewrite_for_device is off.
absl::StatusOr<bool> PadProducts(ir::Graph& graph);

// An aten.addmm whose bias is a row, and nothing is scaled.
bool AddsPlainBias(const ir::Graph& graph, const ir::Node& addmm);

// aten.constant_pad_nd of zeros behind the last elements, sizes constant: how many each dimension gets.
std::optional<std::vector<std::int64_t>> PadFormOf(const ir::Graph& graph, const ir::Node& node);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_PAD_PRODUCTS_H_
