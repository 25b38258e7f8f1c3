#include "backends/graph/graph.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "backends/graph/dim_algebra.h"

namespace framefuse::ir {

Arg Arg::OfValue(ValueId v) {
  Arg a;
  a.kind = Kind::kValue;
  a.value = v;
  return a;
}

Arg Arg::OfValues(std::vector<ValueId> vs) {
  Arg a;
  a.kind = Kind::kValueList;
  a.values = std::move(vs);
  return a;
}

Arg Arg::Constant(c10::IValue v) {
  Arg a;
  if (v.isNone()) return a;
  a.kind = Kind::kConstant;
  a.constant = std::move(v);
  return a;
}

Arg Arg::OfDim(Dim d) {
  if (d.is_constant()) return Constant(c10::IValue(d.constant()));
  Arg a;
  a.kind = Kind::kDim;
  a.dims.push_back(d);
  return a;
}

Arg Arg::OfDims(std::vector<Dim> dims) {
  bool symbolic = false;
  for (const Dim& d : dims) symbolic = symbolic || d.is_symbolic();
  Arg a;
  if (symbolic) {
    a.kind = Kind::kDimList;
    a.dims = std::move(dims);
    return a;
  }
  c10::List<std::int64_t> list;
  list.reserve(dims.size());
  for (const Dim& d : dims) list.push_back(d.constant());
  return Constant(c10::IValue(std::move(list)));
}

ValueId Graph::AddValue(Value v) {
  values.push_back(std::move(v));
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::AddInput(Value v, Input input) {
  input.value = AddValue(std::move(v));
  inputs.push_back(std::move(input));
  return inputs.back().value;
}

ValueId Graph::AddConstant(at::Tensor t) {
  ValueId id = AddValue(DescribeTensor(t));
  constants.push_back({id, std::move(t)});
  return id;
}

OriginId Graph::AddOrigin(Origin o) {
  if (origins.empty() || !(origins.back() == o)) origins.push_back(std::move(o));
  return static_cast<OriginId>(origins.size() - 1);
}

bool Graph::has_unbacked() const {
  return std::any_of(outputs.begin(), outputs.end(), [](const Output& o) { return o.role == OutputRole::kUnbacked; });
}

bool Graph::has_backward() const {
  for (const Output& o : outputs) {
    if (o.role == OutputRole::kGradient) return true;
  }
  return false;
}

std::vector<NodeIndex> Graph::Definitions() const {
  std::vector<NodeIndex> definitions(values.size(), kNoNode);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (ValueId v : nodes[i].outputs) {
      if (v != kNoValue) definitions[static_cast<std::size_t>(v)] = static_cast<NodeIndex>(i);
    }
  }
  return definitions;
}

std::vector<std::int32_t> Graph::UseCounts() const {
  std::vector<std::int32_t> counts(values.size(), 0);
  for (const Node& n : nodes) {
    ForEachUse(n, [&](ValueId v) { ++counts[static_cast<std::size_t>(v)]; });
  }
  for (const Output& o : outputs) {
    if (o.value != kNoValue) ++counts[static_cast<std::size_t>(o.value)];
  }
  return counts;
}

std::vector<Dim> ContiguousStrides(ExprTable& exprs, const std::vector<Dim>& sizes) {
  std::vector<Dim> strides(sizes.size());
  Dim step(1);
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    // As torch: a dimension of size 0 counts as 1.
    if (!sizes[i].Is(0)) step = DimAlgebra(exprs).Multiply(step, sizes[i]);
  }
  return strides;
}

bool IsContiguous(ExprTable& exprs, const Value& v) {
  Dim step(1);
  for (std::size_t i = v.sizes.size(); i-- > 0;) {
    const Dim& size = v.sizes[i];
    if (size.Is(0)) return true;
    if (size.Is(1)) continue;
    if (!(v.strides[i] == step)) return false;
    step = DimAlgebra(exprs).Multiply(step, size);
  }
  return true;
}

bool IsDense(ExprTable& exprs, const Value& v) {
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < v.sizes.size(); ++d) {
    if (v.sizes[d].Is(0)) return true;
    if (!v.sizes[d].Is(1)) order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return exprs.Hint(v.strides[a]) < exprs.Hint(v.strides[b]); });
  Dim next(1);
  for (const std::size_t d : order) {
    if (!(v.strides[d] == next)) return false;
    next = DimAlgebra(exprs).Multiply(next, v.sizes[d]);
  }
  return true;
}

c10::IValue NumberOf(std::int64_t bits, NumberType type) {
  switch (type) {
    case NumberType::kFloat:
      return std::bit_cast<double>(bits);
    case NumberType::kBool:
      return bits != 0;
    case NumberType::kInt:
      return bits;
  }
  return {};
}

Value DescribeTensor(const at::Tensor& t) {
  Value v;
  v.dtype = t.scalar_type();
  v.device = t.device();
  v.layout = t.layout();
  if (v.layout == c10::Layout::Strided) {
    v.sizes.assign(t.sizes().begin(), t.sizes().end());
    v.strides.assign(t.strides().begin(), t.strides().end());
    v.offset = t.storage_offset();
  } else {
    v.sizes.assign(t.sizes().begin(), t.sizes().end());
  }
  v.requires_grad = t.requires_grad();
  v.wrapped_number = t.unsafeGetTensorImpl()->is_wrapped_number();
  return v;
}

}  // namespace framefuse::ir
