// CompositeInference: a composite kernel calls other operators. Run on the fakes themselves, each of those is inferred
// as everywhere else, and its nodes are dropped. Invariant: after a run the graph has the nodes that it had before.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_COMPOSITE_INFERENCE_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_COMPOSITE_INFERENCE_H_

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include "backends/graph/graph.h"
#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

class Recorder;

class CompositeInference {
 public:
  torch::jit::Stack ResultsOf(Recorder& recorder, const OpTraits& traits, c10::ArrayRef<c10::IValue> args);
  // Whether the kernel that is run made the value.
  bool Made(ir::ValueId value) const { return first_value_ >= 0 && value >= first_value_; }

 private:
  ir::ValueId first_value_ = -1;  // of the outermost kernel; -1: none is run
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_COMPOSITE_INFERENCE_H_
