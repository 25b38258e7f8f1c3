// Formula: what decompositions of pointwise operators are written with: arguments in the type that is computed in,
// numbers, comparisons, choices.
#ifndef FRAMEFUSE_BACKENDS_FUSION_FORMULA_H_
#define FRAMEFUSE_BACKENDS_FUSION_FORMULA_H_

#include <initializer_list>

#include "backends/fusion/decompose_rules.h"
#include "backends/graph/operators.h"

namespace framefuse::fusion {

class Formula {
 public:
  // In the type of `like`, or f32 for halves, and on its device.
  Formula(ir::Graph* graph, NodeWriter* writer, const ir::Node& node, ir::ValueId like);

  c10::ScalarType type() const { return type_; }
  c10::Device device() const { return device_; }
  // Tensor argument a, in type().
  ir::ValueId Tensor(std::size_t a);
  // Constant number argument a.
  double Number(std::size_t a) const { return node_.args[a].constant.toScalar().toDouble(); }
  // It as the result's type holds it: what eager's kernels of halves compare with.
  double NumberOfResult(std::size_t a) const;

  ir::ValueId Constant(double number);
  ir::ValueId Compare(ir::OpName op, ir::ValueId x, double number);
  ir::ValueId CompareWith(ir::OpName op, ir::ValueId x, ir::ValueId y);
  ir::ValueId Logical(ir::OpName op, ir::ValueId x, ir::ValueId y);
  ir::ValueId Where(ir::ValueId condition, ir::ValueId x, ir::ValueId y);
  ir::ValueId Where(ir::ValueId condition, double x, ir::ValueId y) { return Where(condition, Constant(x), y); }
  ir::ValueId Where(ir::ValueId condition, ir::ValueId x, double y) { return Where(condition, x, Constant(y)); }

  ir::ValueId Add(ir::ValueId x, ir::ValueId y) { return w_.Binary(ir::OpName::kAddTensor, x, y); }
  ir::ValueId Sub(ir::ValueId x, ir::ValueId y) { return w_.Binary(ir::OpName::kSubTensor, x, y); }
  ir::ValueId Mul(ir::ValueId x, ir::ValueId y) { return w_.Binary(ir::OpName::kMulTensor, x, y); }
  ir::ValueId Plus(ir::ValueId x, double number) {
    return number == 0 ? x : w_.WithNumber(ir::OpName::kAddScalar, x, number);
  }
  ir::ValueId Times(ir::ValueId x, double number) {
    return number == 1 ? x : w_.WithNumber(ir::OpName::kMulScalar, x, number);
  }
  ir::ValueId Unary(ir::OpName op, ir::ValueId x) { return w_.Unary(op, x); }

  // The result is `of`, in the result's type.
  void Is(ir::ValueId result, ir::ValueId of) { w_.Into(result).To(of, graph_.value(result).dtype); }

 private:
  // Of the shape that they are broadcast to.
  ir::Value Over(std::initializer_list<ir::ValueId> operands, c10::ScalarType type) const;

  ir::Graph& graph_;
  NodeWriter& w_;
  const ir::Node& node_;
  c10::ScalarType result_, type_;
  c10::Device device_;
};

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_FORMULA_H_
