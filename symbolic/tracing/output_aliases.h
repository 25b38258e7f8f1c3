// What the outputs of a recording share memory with: an input, each other, or a base that nobody returns.
// Invariant: outputs whose memory is one have one base, and the base's history is known if any of them has one.
// Appends to the graph's outputs; alias_of is the number of an input's record, which Close renumbers.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_OUTPUT_ALIASES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_OUTPUT_ALIASES_H_

#include <torch/csrc/autograd/function.h>

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "symbolic/tracing/state.h"

namespace framefuse::tracing {

// An output for `t`, of no role or alias yet.
ir::Output NewOutput(ir::Graph& graph, const at::Tensor& t);

// Whether it is an autograd.Function's.
bool IsOfFunction(const torch::autograd::Node& node);
// In order: those that a pass comes to by a node of torch's own.
std::vector<std::size_t> ViewsWithHistory(const ir::Graph& graph);

// Describes `tensors`, the caller's outputs. `hidden` gets the bases that came along: number of the output, its tensor
// (undefined: it is gone, and nothing that shares its memory requires grad).
absl::Status DescribeOutputs(Recorder& recorder, const std::vector<InputRecord>& inputs,
                             const std::vector<at::Tensor>& tensors,
                             std::vector<std::pair<std::size_t, at::Tensor>>* hidden);
// A second derivative comes to the node of a result alone, and else to what its forward did, whose derivative an
// autograd.Function's backward need not be: what Functions gave becomes hidden results.
void AddResultsOfFunctions(ir::Graph& graph, absl::Span<const at::Tensor> results,
                           std::vector<std::pair<std::size_t, at::Tensor>>* hidden);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_OUTPUT_ALIASES_H_
