// Reductions that kernels have: sums and extremes over neighbouring dimensions, where the first extreme is, and the
// pick of one element a row.
#ifndef FRAMEFUSE_BACKENDS_FUSION_REDUCTION_H_
#define FRAMEFUSE_BACKENDS_FUSION_REDUCTION_H_

#include <cstddef>

#include "backends/graph/graph.h"
#include "backends/kernel_ir/kernel.h"

namespace framefuse::fusion {

// A reduction that kernels have: its dimensions are a range.
struct ReductionForm {
  std::size_t begin = 0, end = 0;
  bool keep = false;
  kernel_ir::Op op = kernel_ir::Op::kReduceSum;
  bool picks = false;  // one element of each row, named by an index tensor, and not all of them
  bool index = false;  // where the first of the extremes is that `op` finds; it takes two loops, one after the other
  // How many loops later than its operand its result is known.
  int loops() const { return index ? 2 : 1; }
};
// On CUDA devices the indices of extremes run as ATen operators: of 500 random programs on an H200 three were wrong,
// each of a negated int32.
inline constexpr bool kIndicesOnCuda = false;
bool IsReduction(const ir::Graph& graph, const ir::Node& node, ReductionForm* form);
// The index of an extreme over one dimension of a tensor has a kernel: argmax(in, dim).
bool HasIndexKernel(const ir::Graph& graph, const ir::Value& in, std::size_t begin, std::size_t end);
// What is reduced are points of an image, and the dimension before them lies side by side: each point's channels. Not
// of one dimension: a row may be read again by what follows (softmax), and a row kernel holds it.
bool IsBesideChannels(const ir::Graph& graph, const ir::Node& node, const ReductionForm& form);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_REDUCTION_H_
