// Kinds of operators that steps ask for: products, and views of all of a memory.
#ifndef FRAMEFUSE_BACKENDS_FUSION_NODE_KINDS_H_
#define FRAMEFUSE_BACKENDS_FUSION_NODE_KINDS_H_

#include "backends/graph/graph.h"
#include "backends/graph/operators.h"

namespace framefuse::fusion {

// Its result is in memory of its own, laid out as recorded; it writes and draws nothing.
inline bool IsProduct(const ir::Node& n) {
  static constexpr ir::OpNames kProducts{ir::OpName::kMm, ir::OpName::kAddmm, ir::OpName::kBmm, ir::OpName::kBaddbmm};
  return kProducts.contains(n.op);
}

// Its results are in memory of their own, and in no other's; it writes and draws nothing.
inline bool IsConvolution(const ir::Node& n) {
  static constexpr ir::OpNames kConvolutions{ir::OpName::kConvolution, ir::OpName::kConvolutionBackward};
  return kConvolutions.contains(n.op);
}

// Its result is all of its argument's memory.
inline bool IsWholeView(const ir::Node& n) {
  static constexpr ir::OpNames kWhole{ir::OpName::kView,         ir::OpName::k_UnsafeView, ir::OpName::kPermute,
                                      ir::OpName::kTransposeInt, ir::OpName::kT,           ir::OpName::kUnsqueeze,
                                      ir::OpName::kSqueezeDim};
  return kWhole.contains(n.op);
}

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_NODE_KINDS_H_
