// PassOrder: the order in which eager's engine would come to the inputs and outputs of a graph in a backward pass, read
// from the history that the fakes have. Hooks that a program puts on leaves run in this order.
// The engine takes what is ready from a heap: latest operator first, leaves at once. Equal ones (the leaves of one
// operator) leave a heap in an order that follows from its other content, so the heap is run here too.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_PASS_ORDER_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_PASS_ORDER_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/graph/graph.h"

namespace framefuse::tracing {

// All on one scale.
struct PassOrder {
  std::vector<std::vector<std::int32_t>> inputs;  // of each input for each output, as in ir::Output::turns
  std::vector<std::int32_t> outputs;
  std::vector<std::int32_t> views;
  std::vector<std::int32_t> functions;                    // of nodes of autograd.Functions
  absl::flat_hash_map<std::int64_t, std::int32_t> nodes;  // by an autograd node's number
};

// The leaves that a backward pass from `output` comes to, if none of them is one of `inputs`.
std::vector<at::Tensor> OtherLeavesOf(const at::Tensor& output, const std::vector<at::Tensor>& inputs);
// For each of `tensors`, whether passes from `outputs` come to it.
std::vector<bool> AreReached(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& tensors);

// `inputs` are leaves, or aliases that stand for a history (MakeNonLeaf). `views`: results that passes come through,
// and that are no outputs of the graph.
PassOrder OrderOfPass(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                      const std::vector<at::Tensor>& views);
// To nodes of the backward, and to these outputs of the graph. An output has the turns of Functions after
// its own: they take what they have saved of it as it is, be it detached in place.
void GiveTurns(const PassOrder& order, const std::vector<std::size_t>& outputs, const std::vector<std::size_t>& views,
               ir::Graph& graph);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_PASS_ORDER_H_
