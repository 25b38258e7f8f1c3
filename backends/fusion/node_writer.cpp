#include "backends/fusion/node_writer.h"

#include <ATen/core/function_schema.h>

#include <algorithm>
#include <utility>

#include "backends/fusion/channels_last.h"
#include "backends/graph/operators.h"

namespace framefuse::fusion {

using ir::Arg;
using ir::Dim;
using ir::Value;
using ir::ValueId;

Value NodeWriter::Like(std::vector<Dim> sizes, c10::ScalarType dtype, c10::Device device) {
  Value v;
  v.dtype = dtype;
  v.device = device;
  v.strides = ir::ContiguousStrides(graph_.exprs, sizes);
  v.sizes = std::move(sizes);
  return v;
}

Value NodeWriter::LaidOutLike(std::initializer_list<ValueId> operands, std::vector<Dim> sizes, c10::ScalarType dtype) {
  Value v = Like(std::move(sizes), dtype, value(*operands.begin()).device);
  for (const ValueId operand : operands) {
    if (value(operand).sizes != v.sizes || !IsChannelsLast(graph_.exprs, value(operand))) continue;
    v.strides = value(operand).strides;
    break;
  }
  return v;
}

ValueId NodeWriter::Call(ir::OpId op, std::vector<Arg> args, const Value& like) {
  ir::Node node;
  node.op = op;
  node.phase = origin_.phase;
  node.origin = origin_.origin;
  const auto& schema = node.op->schema().arguments();
  for (std::size_t a = args.size(); a < schema.size(); ++a) {
    args.push_back(schema[a].default_value() && !schema[a].default_value()->isNone()
                       ? Arg::Constant(*schema[a].default_value())
                       : Arg::None());
  }
  node.args = std::move(args);
  const ValueId out = into_ != ir::kNoValue ? into_ : graph_.AddValue(like);
  into_ = ir::kNoValue;
  node.outputs = {out};
  node.outputs.resize(node.op->returns().size(), ir::kNoValue);
  nodes_.push_back(std::move(node));
  return out;
}

std::vector<Dim> NodeWriter::Broadcast(ValueId a, ValueId b) const {
  std::vector<Dim> x = value(a).sizes, y = value(b).sizes;
  if (x.size() < y.size()) std::swap(x, y);
  for (std::size_t i = 0; i < y.size(); ++i) {
    Dim& d = x[x.size() - y.size() + i];
    if (d == Dim(1)) d = y[i];
  }
  return x;
}

ValueId NodeWriter::Unary(ir::OpName op, ValueId a) {
  return Call(op, {Arg::OfValue(a)}, LaidOutLike({a}, value(a).sizes, value(a).dtype));
}

ValueId NodeWriter::Binary(ir::OpName op, ValueId a, ValueId b) {
  const c10::ScalarType dtype = c10::promoteTypes(value(a).dtype, value(b).dtype);
  return Call(op, {Arg::OfValue(a), Arg::OfValue(b)}, LaidOutLike({a, b}, Broadcast(a, b), dtype));
}

ValueId NodeWriter::WithNumber(ir::OpName op, ValueId a, double number) {
  return Call(op, {Arg::OfValue(a), Arg::Constant(number)}, LaidOutLike({a}, value(a).sizes, value(a).dtype));
}

ValueId NodeWriter::WithDim(ir::OpName op, ValueId a, const Dim& dim) {
  if (dim.is_constant()) return WithNumber(op, a, static_cast<double>(dim.constant()));
  return Call(op, {Arg::OfValue(a), Arg::OfDim(dim)}, LaidOutLike({a}, value(a).sizes, value(a).dtype));
}

ValueId NodeWriter::Reduce(ir::OpName op, ValueId a, std::vector<std::int64_t> dims, bool keep) {
  const ValueId into = std::exchange(into_, ir::kNoValue);
  std::sort(dims.begin(), dims.end());
  const auto first = [&] {
    return std::adjacent_find(dims.begin(), dims.end(), [](std::int64_t x, std::int64_t y) { return x + 1 != y; });
  };
  while (first() != dims.end()) {
    auto run = dims.end() - 1;
    while (*(run - 1) == *run - 1) --run;
    a = ReduceRun(op, a, {run, dims.end()}, keep);
    dims.erase(run, dims.end());
  }
  return Into(into).ReduceRun(op, a, dims, keep);
}

ValueId NodeWriter::ReduceRun(ir::OpName op, ValueId a, const std::vector<std::int64_t>& dims, bool keep) {
  std::vector<Dim> sizes = value(a).sizes;
  const auto begin = sizes.begin() + (dims.empty() ? 0 : dims.front()),
             end = begin + static_cast<std::ptrdiff_t>(dims.size());
  if (keep) {
    std::fill(begin, end, Dim(1));
  } else {
    sizes.erase(begin, end);
  }
  return Call(op, {Arg::OfValue(a), Arg::Constant(c10::List<std::int64_t>(dims)), Arg::Constant(keep)},
              Like(std::move(sizes), value(a).dtype, value(a).device));
}

ValueId NodeWriter::To(ValueId a, c10::ScalarType dtype) {
  if (value(a).dtype == dtype && into_ == ir::kNoValue) return a;
  Value like = LaidOutLike({a}, value(a).sizes, dtype);
  return Call(ir::OpName::k_ToCopy, {Arg::OfValue(a), Arg::Constant(static_cast<std::int64_t>(dtype))}, like);
}

ValueId NodeWriter::View(ValueId a, const std::vector<std::int64_t>& sizes) {
  return ViewAs(a, std::vector<Dim>(sizes.begin(), sizes.end()));
}

ValueId NodeWriter::ViewAs(ValueId a, std::vector<Dim> sizes) {
  const Value like = Like(sizes, value(a).dtype, value(a).device);
  return Call(ir::OpName::kView, {Arg::OfValue(a), Arg::OfDims(std::move(sizes))}, like);
}

Dim NodeWriter::Product(const std::vector<std::int64_t>& dims, ValueId of) {
  Dim n(1);
  for (std::int64_t d : dims)
    n = graph_.exprs.Make(ir::ExprKind::kMul, n, value(of).sizes[static_cast<std::size_t>(d)]);
  return n;
}

}  // namespace framefuse::fusion
