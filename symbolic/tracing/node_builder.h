// NodeBuilder: a node on its way into the graph, from an operator's arguments on the stack to its results there.
// Invariant: the node is in the graph when its results are on the stack, and not before.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_NODE_BUILDER_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_NODE_BUILDER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <optional>

#include "backends/graph/graph.h"
#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

class Recorder;

class NodeBuilder {
 public:
  // The arguments are on top of the stack and stay there till Emit.
  NodeBuilder(Recorder& recorder, const OpTraits& traits, torch::jit::Stack* stack);

  c10::ArrayRef<c10::IValue> args() const { return args_; }
  ir::Node& node() { return node_; }
  c10::Device device() const { return *device_; }
  // Of what a kernel gave for `args`: the program's arguments, or others like them.
  void DescribeResults(c10::ArrayRef<c10::IValue> args, const torch::jit::Stack& results, Outputs* outputs);
  // The arguments are replaced by results.
  void Emit(const Outputs& outputs);

 private:
  void BuildArguments();
  void NoteTensor(const at::Tensor& t);
  ir::Arg TensorListArg(const c10::IValue& v);
  ir::Arg NumberArg(const c10::IValue& v) const;
  void CheckLayouts() const;
  at::Tensor EmitOutput(const OutputMeta& meta);

  Recorder& recorder_;
  const OpTraits& traits_;
  torch::jit::Stack* stack_;
  c10::ArrayRef<c10::IValue> args_;
  ir::Node node_;
  std::optional<c10::Device> device_;
  bool device_from_scalar_ = false;
  torch::jit::Stack numbers_;  // returns that are no tensors, by return; empty if all are
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_NODE_BUILDER_H_
