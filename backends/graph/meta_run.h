// MetaRun: what a node's operator makes of arguments as the graph describes them, found by running it on the meta
// device. Symbols stand at their hints. Invariant: nothing of the graph changes; values that are added later may be
// asked for.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_META_RUN_H_
#define FRAMEFUSE_BACKENDS_GRAPH_META_RUN_H_

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/graph/graph.h"

namespace framefuse::ir {

struct MetaResults {
  std::vector<at::Tensor> tensors;  // lists flattened; undefined: a number, or nothing
  bool has_strides = true;          // false: the kernel says how large they are only
};

class MetaRun {
 public:
  explicit MetaRun(const Graph& graph) : g_(graph) {}

  // Empty where torch has no C++ kernel for it, or an argument is not strided or known at run time only.
  // InvalidArgument if the operator refuses its arguments.
  absl::StatusOr<std::optional<MetaResults>> ResultsOf(const Node& n) const;

  bool IsStrided(ValueId v) const;
  std::vector<std::int64_t> Hints(const std::vector<Dim>& dims) const;

 private:
  std::optional<c10::IValue> Argument(const Arg& arg, const OpArgument& schema) const;
  std::optional<c10::IValue> List(const Arg& arg, const OpArgument& schema) const;
  at::Tensor TensorOf(ValueId id) const;

  const Graph& g_;
};

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_META_RUN_H_
