// NodeWriter: appends ATen nodes to a graph that is being rewritten, with metadata of their results.
// Arguments that are not given take the schema's defaults.
#ifndef FRAMEFUSE_BACKENDS_FUSION_NODE_WRITER_H_
#define FRAMEFUSE_BACKENDS_FUSION_NODE_WRITER_H_

#include <utility>
#include <vector>

#include "backends/graph/graph.h"
#include "backends/graph/operators.h"

namespace framefuse::fusion {

class NodeWriter {
 public:
  NodeWriter(ir::Graph* graph, std::vector<ir::Node>* nodes, const ir::Node& origin)
      : graph_(*graph), nodes_(*nodes), origin_(origin) {}

  // The next result is stored in this value of the node that is replaced.
  NodeWriter& Into(ir::ValueId value) {
    into_ = value;
    return *this;
  }

  ir::ValueId Unary(ir::OpName op, ir::ValueId a);
  ir::ValueId Binary(ir::OpName op, ir::ValueId a, ir::ValueId b);
  ir::ValueId WithNumber(ir::OpName op, ir::ValueId a, double number);
  ir::ValueId WithDim(ir::OpName op, ir::ValueId a, const ir::Dim& dim);
  // Dimensions that are not side by side are reduced one run after another, the last one first.
  ir::ValueId Reduce(ir::OpName op, ir::ValueId a, std::vector<std::int64_t> dims, bool keep);
  ir::ValueId To(ir::ValueId a, c10::ScalarType dtype);  // nothing if it is that already, unless Into was given
  ir::ValueId View(ir::ValueId a, const std::vector<std::int64_t>& sizes);  // of a contiguous value
  ir::ValueId ViewAs(ir::ValueId a, std::vector<ir::Dim> sizes);
  // Any operator with these arguments and a first result of the given metadata; others are not used.
  ir::ValueId Call(ir::OpName op, std::vector<ir::Arg> args, const ir::Value& like) {
    return Call(ir::RequireOp(op), std::move(args), like);
  }
  ir::ValueId Call(ir::OpId op, std::vector<ir::Arg> args, const ir::Value& like);

  ir::Value Like(std::vector<ir::Dim> sizes, c10::ScalarType dtype, c10::Device device);  // contiguous
  const ir::Value& value(ir::ValueId v) const { return graph_.value(v); }
  ir::Dim Product(const std::vector<std::int64_t>& dims, ir::ValueId of);

 private:
  ir::ValueId ReduceRun(ir::OpName op, ir::ValueId a, const std::vector<std::int64_t>& dims, bool keep);
  std::vector<ir::Dim> Broadcast(ir::ValueId a, ir::ValueId b) const;
  // In channels_last if an operand of these sizes is, else contiguous.
  ir::Value LaidOutLike(std::initializer_list<ir::ValueId> operands, std::vector<ir::Dim> sizes, c10::ScalarType dtype);

  ir::Graph& graph_;
  std::vector<ir::Node>& nodes_;
  const ir::Node& origin_;
  ir::ValueId into_ = ir::kNoValue;
};

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_NODE_WRITER_H_
