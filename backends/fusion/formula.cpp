#include "backends/fusion/formula.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <string>

#include "backends/graph/operators.h"

namespace framefuse::fusion {

using ir::Arg;
using ir::ValueId;

Formula::Formula(ir::Graph* graph, NodeWriter* writer, const ir::Node& node, ValueId like)
    : graph_(*graph),
      w_(*writer),
      node_(node),
      result_(graph->value(like).dtype),
      type_(Wide(result_)),
      device_(graph->value(like).device) {}

ir::Value Formula::Over(std::initializer_list<ValueId> operands, c10::ScalarType type) const {
  ir::Value out;
  out.dtype = type;
  for (ValueId v : operands) {
    const ir::Value& value = graph_.value(v);
    if (!value.sizes.empty()) out.device = value.device;
    if (value.sizes.size() > out.sizes.size()) {
      out.sizes.insert(out.sizes.begin(), value.sizes.size() - out.sizes.size(), ir::Dim(1));
    }
    const std::size_t missing = out.sizes.size() - value.sizes.size();
    for (std::size_t d = 0; d < value.sizes.size(); ++d) {
      if (out.sizes[missing + d] == ir::Dim(1)) out.sizes[missing + d] = value.sizes[d];
    }
  }
  if (out.sizes.empty()) out.device = graph_.value(*(operands.end() - 1)).device;
  out.strides = ir::ContiguousStrides(graph_.exprs, out.sizes);
  return out;
}

ValueId Formula::Tensor(std::size_t a) { return w_.To(node_.args[a].value, type()); }

double Formula::NumberOfResult(std::size_t a) const {
  const auto number = static_cast<float>(Number(a));
  if (result_ == c10::ScalarType::BFloat16) return c10::BFloat16(number);
  if (result_ == c10::ScalarType::Half) return c10::Half(number);
  return Number(a);
}

ValueId Formula::Constant(double number) {
  return graph_.AddConstant(at::scalar_tensor(number, at::TensorOptions().dtype(type())));
}

ValueId Formula::Compare(ir::OpName op, ValueId x, double number) {
  return w_.Call(op, {Arg::OfValue(x), Arg::Constant(number)}, Over({x}, c10::ScalarType::Bool));
}

ValueId Formula::CompareWith(ir::OpName op, ValueId x, ValueId y) {
  return w_.Call(op, {Arg::OfValue(x), Arg::OfValue(y)}, Over({x, y}, c10::ScalarType::Bool));
}

ValueId Formula::Logical(ir::OpName op, ValueId x, ValueId y) {
  return w_.Call(op, {Arg::OfValue(x), Arg::OfValue(y)}, Over({x, y}, c10::ScalarType::Bool));
}

ValueId Formula::Where(ValueId condition, ValueId x, ValueId y) {
  return w_.Call(ir::OpName::kWhereSelf, {Arg::OfValue(condition), Arg::OfValue(x), Arg::OfValue(y)},
                 Over({x, y, condition}, type_));
}

}  // namespace framefuse::fusion
