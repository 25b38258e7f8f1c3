#include "backends/fusion/decompose.h"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "backends/fusion/decompose_rules.h"
#include "backends/fusion/node_writer.h"
#include "backends/fusion/pointwise.h"
#include "backends/fusion/reduction.h"
#include "backends/graph/dim_algebra.h"
#include "backends/graph/op_forms.h"
#include "backends/graph/operators.h"
#include "common/config.h"
#include "common/coverage.h"

namespace framefuse::fusion {
namespace {

using ir::Arg;
using ir::Dim;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

constexpr const char* kFamily = "decomposition";
constexpr ir::OpNames kAnys{OpName::kAny, OpName::kAnyDim, OpName::kAnyDims};
constexpr ir::OpNames kAlls{OpName::kAll, OpName::kAllDim, OpName::kAllDims};
constexpr const char* kEach = "_foreach";

// One kind where one rule serves many operators.
std::string_view KindOf(OpName name) {
  if (kAnys.contains(name)) return ir::TextOf(OpName::kAny);
  return ir::TextOf(kAlls.contains(name) ? OpName::kAll : name);
}

// The dimension, if kernels are to do a softmax over it: the last one, which is a row that a kernel walks; on a GPU
// any, in a kernel for each pass over it, since ATen takes many times as long.
std::optional<Dims> DimOfSoftmax(const Graph& g, ValueId v, std::int64_t dim) {
  const ir::Value& value = g.value(v);
  const auto rank = static_cast<std::int64_t>(value.sizes.size());
  if (rank == 0 || !IsRealFloat(value)) return std::nullopt;
  if (dim < 0) dim += rank;
  const Dim& size = value.sizes[static_cast<std::size_t>(dim)];
  const bool on_device = config().rewrite_for_device && (value.device.is_cuda() || config().rewrite_always);
  if (size == Dim(0) || !(dim == rank - 1 || (on_device && size.is_constant() && size != Dim(1)))) return std::nullopt;
  return Dims{dim};
}

template <bool log>
bool Softmax(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[0].value, out = n.outputs[0];
  const std::optional<Dims> over = DimOfSoftmax(g, x, n.args[1].constant.toInt());
  if (!over) return false;
  const Dims& dims = *over;
  const ValueId wide = w.To(x, Wide(g.value(x).dtype));
  const ValueId shifted = w.Binary(OpName::kSubTensor, wide, w.Reduce(OpName::kAmax, wide, dims, true));
  const ValueId e = w.Unary(OpName::kExp, shifted);
  const ValueId sum = w.Reduce(OpName::kSumDimIntList, e, dims, true);
  const ValueId by = log ? w.Unary(OpName::kLog, sum) : w.Unary(OpName::kReciprocal, sum);
  const bool exact = g.value(wide).dtype == g.value(out).dtype;
  if (exact) w.Into(out);
  const ValueId y = log ? w.Binary(OpName::kSubTensor, shifted, by) : w.Binary(OpName::kMulTensor, e, by);
  if (!exact) w.Into(out).To(y, g.value(out).dtype);
  return true;
}

// dx = g o - o sum(g o); of the log: g - exp(o) sum(g)
template <bool log>
bool SoftmaxBackward(Graph& g, const Node& n, NodeWriter w) {
  const ValueId out = n.outputs[0];
  const std::optional<Dims> over = DimOfSoftmax(g, n.args[1].value, n.args[2].constant.toInt());
  if (!over) return false;
  const Dims& dims = *over;
  const c10::ScalarType type = Wide(g.value(n.args[1].value).dtype);
  const ValueId grad = w.To(n.args[0].value, type), o = w.To(n.args[1].value, type);
  ValueId left = grad, right = kNoValue;
  if (log) {
    const ValueId sum = w.Reduce(OpName::kSumDimIntList, grad, dims, true);
    right = w.Binary(OpName::kMulTensor, w.Unary(OpName::kExp, o), sum);
  } else {
    left = w.Binary(OpName::kMulTensor, grad, o);
    right = w.Binary(OpName::kMulTensor, o, w.Reduce(OpName::kSumDimIntList, left, dims, true));
  }
  if (g.value(out).dtype == type) {
    w.Into(out).Binary(OpName::kSubTensor, left, right);
  } else {
    const ValueId y = w.Binary(OpName::kSubTensor, left, right);
    w.Into(out).To(y, g.value(out).dtype);
  }
  return true;
}

// Dimensions of an optional int[] argument; all if it is empty or None.
Dims DimsOf(const Graph& g, ValueId x, const Arg& arg) {
  const auto rank = static_cast<std::int64_t>(g.value(x).sizes.size());
  Dims dims;
  if (IsGiven(arg) && arg.constant.isIntList()) dims = arg.constant.toIntVector();
  if (dims.empty()) {
    dims.resize(static_cast<std::size_t>(rank));
    std::iota(dims.begin(), dims.end(), std::int64_t{0});
  }
  for (std::int64_t& d : dims) d = d < 0 ? d + rank : d;
  return dims;
}

template <bool full>
bool Mean(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[0].value, out = n.outputs[0];
  const c10::ScalarType type = g.value(out).dtype;
  if (!IsRealFloat(g.value(x)) || !IsRealFloat(g.value(out)) || g.value(x).sizes.empty()) return false;
  const Dims dims = full ? DimsOf(g, x, Arg::None()) : DimsOf(g, x, n.args[1]);
  if (w.Product(dims, x) == Dim(0)) return false;
  const bool keep = !full && n.args[2].constant.toBool();
  const ValueId sum = w.Reduce(OpName::kSumDimIntList, w.To(x, Wide(type)), dims, keep);
  if (Wide(type) == type) {
    w.Into(out).WithDim(OpName::kDivScalar, sum, w.Product(dims, x));
  } else {
    const ValueId y = w.WithDim(OpName::kDivScalar, sum, w.Product(dims, x));
    w.Into(out).To(y, type);
  }
  return true;
}

bool FullSum(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[0].value, out = n.outputs[0];
  if (!IsRealFloat(g.value(x)) || g.value(x).sizes.empty() || g.value(x).dtype != g.value(out).dtype) return false;
  w.Into(out).Reduce(OpName::kSumDimIntList, x, DimsOf(g, x, Arg::None()), false);
  return true;
}

// Of dimensions that are not side by side, as of an image's batch and points; kernels reduce one run of them at a time.
bool SumOfSeveralRuns(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[0].value, out = n.outputs[0];
  const ir::Value in = g.value(x);
  if (!IsRealFloat(in) || in.dtype != g.value(out).dtype || IsGiven(n.args[3])) return false;
  Dims dims = DimsOf(g, x, n.args[1]);
  std::sort(dims.begin(), dims.end());
  if (dims.empty() || dims.back() - dims.front() < static_cast<std::int64_t>(dims.size())) return false;
  const bool keep = n.args[2].constant.toBool(), wide = Wide(in.dtype) == in.dtype;
  const ValueId from = w.To(x, Wide(in.dtype));
  const ValueId sum = (wide ? w.Into(out) : w).Reduce(OpName::kSumDimIntList, from, dims, keep);
  if (!wide) w.Into(out).To(sum, in.dtype);
  return true;
}

// One thread, or block of threads, walks a row where several passes are made over it.
bool HasFewLongRows(const Graph& g, ValueId x, const Dim& length) {
  std::int64_t points = 1;
  for (const Dim& d : g.value(x).sizes) points *= g.exprs.Hint(d);
  const std::int64_t row = g.exprs.Hint(length);
  return row > (1 << 16) && points / row < 16;
}

// self, dim, keepdim. Where the largest element is infinite it is the result, and what was computed is NaN.
bool LogSumExp(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[0].value, out = n.outputs[0];
  const ir::Value in = g.value(x), result = g.value(out);
  if (!IsRealFloat(in) || in.sizes.empty() || in.dtype != result.dtype || !ir::IsContiguous(g.exprs, result))
    return false;
  const Dims dims = DimsOf(g, x, n.args[1]);
  const Dim length = w.Product(dims, x);
  if (length == Dim(0) || HasFewLongRows(g, x, length)) return false;
  const ValueId wide = w.To(x, Wide(in.dtype)), largest = w.Reduce(OpName::kAmax, wide, dims, true);
  ir::Value flags = g.value(largest);
  flags.dtype = c10::ScalarType::Bool;
  const Arg infinity = Arg::Constant(std::numeric_limits<double>::infinity());
  const ValueId infinite = w.Call(OpName::kEqScalar, {Arg::OfValue(w.Unary(OpName::kAbs, largest)), infinity}, flags);
  const ValueId sum =
      w.Reduce(OpName::kSumDimIntList, w.Unary(OpName::kExp, w.Binary(OpName::kSubTensor, wide, largest)), dims, true);
  const ValueId y = w.Call(OpName::kWhereSelf,
                           {Arg::OfValue(infinite), Arg::OfValue(largest),
                            Arg::OfValue(w.Binary(OpName::kAddTensor, w.Unary(OpName::kLog, sum), largest))},
                           ir::Value(g.value(largest)));
  InShape(g, w, out, y);
  return true;
}

// self, dim, correction, keepdim; with_mean: var_mean, std_mean; root: std, std_mean
template <bool with_mean, bool root>
bool Variance(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[0].value;
  if (!IsRealFloat(g.value(x)) || g.value(x).sizes.empty()) return false;
  const Dims dims = DimsOf(g, x, n.args[1]);
  const Dim count = w.Product(dims, x);
  const bool keep = n.args[3].constant.toBool();
  const double correction = IsGiven(n.args[2]) ? n.args[2].constant.toScalar().toDouble() : 1;
  // Of no elements, or where the divisor is 0 or below: eager's rules for that are its own.
  ir::DimAlgebra algebra(g.exprs);
  if (static_cast<double>(algebra.Lowest(count).value_or(0)) <= std::max(correction, 0.0)) return false;
  if (correction != static_cast<double>(static_cast<std::int64_t>(correction))) return false;
  const c10::ScalarType type = g.value(x).dtype;
  for (ValueId out : n.outputs) {
    if (out != kNoValue && !keep && !ir::IsContiguous(g.exprs, g.value(out))) return false;
  }
  const Moments m =
      MomentsOf(w, w.To(x, Wide(type)), dims, algebra.Subtract(count, Dim(static_cast<std::int64_t>(correction))));
  if (n.outputs[0] != kNoValue) InShape(g, w, n.outputs[0], root ? w.Unary(OpName::kSqrt, m.variance) : m.variance);
  if (with_mean && n.outputs[1] != kNoValue) InShape(g, w, n.outputs[1], m.mean);
  return true;
}

// self, ord, dim, keepdim, dtype. Squares are summed as they are, as eager does.
bool VectorNorm(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[0].value, out = n.outputs[0];
  const ir::Value in = g.value(x), result = g.value(out);
  if (!IsRealFloat(in) || in.sizes.empty() || in.dtype != result.dtype || IsGiven(n.args[4])) return false;
  if (n.args[1].kind != Arg::Kind::kConstant) return false;
  if (!n.args[3].constant.toBool() && !ir::IsContiguous(g.exprs, result)) return false;
  const double order = n.args[1].constant.toScalar().toDouble();
  const Dims dims = DimsOf(g, x, n.args[2]);
  if ((order != 1 && order != 2) || w.Product(dims, x) == Dim(0)) return false;
  const ValueId wide = w.To(x, Wide(in.dtype));
  const ValueId sum =
      w.Reduce(OpName::kSumDimIntList,
               order == 1 ? w.Unary(OpName::kAbs, wide) : w.Binary(OpName::kMulTensor, wide, wide), dims, true);
  InShape(g, w, out, order == 1 ? sum : w.Unary(OpName::kSqrt, sum));
  return true;
}

template <OpName op>
bool Largest(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[0].value, out = n.outputs[0];
  if (!IsRealFloat(g.value(x)) || g.value(x).sizes.empty()) return false;
  const Dims all = DimsOf(g, x, Arg::None());
  const Dim count = w.Product(all, x);
  if (!count.is_constant() || count == Dim(0)) return false;
  InShape(g, w, out, w.Reduce(op, x, all, true));
  return true;
}

// max and min over a dimension: self, dim, keepdim.
template <OpName extreme, OpName index>
bool ExtremeAndIndex(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[0].value;
  const ir::Value& in = g.value(x);
  if (in.sizes.empty()) return false;
  const std::int64_t given = n.args[1].constant.toInt();
  const std::int64_t dim = given < 0 ? given + static_cast<std::int64_t>(in.sizes.size()) : given;
  if (!HasIndexKernel(g, in, static_cast<std::size_t>(dim), static_cast<std::size_t>(dim) + 1)) return false;
  if (const ValueId out = n.outputs[0]; out != kNoValue)
    w.Into(out).Call(extreme, {n.args[0], Arg::Constant(c10::List<std::int64_t>({dim})), n.args[2]}, g.value(out));
  if (const ValueId out = n.outputs[1]; out != kNoValue)
    w.Into(out).Call(index, {n.args[0], Arg::Constant(dim), n.args[2]}, g.value(out));
  return true;
}

// The largest or smallest of 0 and 1; self, dim or dims, keepdim, or self alone.
template <bool any>
bool AnyOrAll(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[0].value, out = n.outputs[0];
  const ir::Value in = g.value(x), result = g.value(out);
  const bool alone = n.args.size() == 1;
  if (result.dtype != c10::ScalarType::Bool || !StorageOf(in.dtype) || in.sizes.empty()) return false;
  if (!ir::IsContiguous(g.exprs, result)) return false;
  Dims dims;
  if (!alone && n.args[1].kind == Arg::Kind::kConstant && n.args[1].constant.isInt()) {
    dims = {n.args[1].constant.toInt()};
    if (dims[0] < 0) dims[0] += static_cast<std::int64_t>(in.sizes.size());
  } else {
    dims = DimsOf(g, x, alone ? Arg::None() : n.args[1]);
  }
  const Dim count = w.Product(dims, x);
  if (!count.is_constant() || count == Dim(0)) return false;
  ir::Value flags = in;
  flags.dtype = c10::ScalarType::Bool;
  flags.storage = -1;
  const ValueId set = in.dtype == c10::ScalarType::Bool
                          ? x
                          : w.Call(OpName::kNeScalar, {Arg::OfValue(x), Arg::Constant(std::int64_t{0})}, flags);
  InShape(g, w, out, w.Reduce(any ? OpName::kAmax : OpName::kAmin, w.To(set, c10::ScalarType::Int), dims, true));
  return true;
}

// One operator for each element.
bool Foreach(Graph& g, const Node& n, NodeWriter w) {
  const ir::OpId element = ir::ElementForm(n.op);
  if (element == nullptr || n.args[0].kind != Arg::Kind::kValueList) return false;
  const bool has_list = n.op->name().ends_with(".ScalarList");
  const std::size_t arguments = element->arguments().size();
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i] == kNoValue) continue;
    std::vector<Arg> args;
    for (std::size_t a = 0; a < std::min(arguments, n.args.size()); ++a) {
      const Arg& arg = n.args[a];
      if (arg.kind == Arg::Kind::kValueList) {
        args.push_back(Arg::OfValue(arg.values[i]));
      } else if (has_list && arg.kind == Arg::Kind::kConstant && arg.constant.isList()) {
        args.push_back(Arg::Constant(arg.constant.toListRef()[i]));
      } else {
        args.push_back(arg);
      }
    }
    if (ir::Is(element, OpName::kAddcmul) || ir::Is(element, OpName::kAddcdiv)) args.resize(4);
    w.Into(n.outputs[i]).Call(element, std::move(args), g.value(n.outputs[i]));
  }
  return true;
}

using enum ir::OpName;

constexpr DecompositionRow kRows[] = {
    {k_Softmax, Softmax<false>},
    {k_LogSoftmax, Softmax<true>},
    {k_SoftmaxBackwardData, SoftmaxBackward<false>},
    {k_LogSoftmaxBackwardData, SoftmaxBackward<true>},
    {kLinalgVectorNorm, OfFirst<VectorNorm>},
    {kMaxDim, ExtremeAndIndex<kAmax, kArgmax>},
    {kMinDim, ExtremeAndIndex<kAmin, kArgmin>},
    {kLogsumexp, OfFirst<LogSumExp>},
    {kMeanDim, OfFirst<Mean<false>>},
    {kMean, OfFirst<Mean<true>>},
    {kSum, OfFirst<FullSum>},
    {kSumDimIntList, OfFirst<SumOfSeveralRuns>},
    {kVarCorrection, OfFirst<Variance<false, false>>},
    {kVarMeanCorrection, OfFirst<Variance<true, false>>},
    {kStdCorrection, OfFirst<Variance<false, true>>},
    {kStdMeanCorrection, OfFirst<Variance<true, true>>},
    {kMax, OfFirst<Largest<kAmax>>},
    {kMin, OfFirst<Largest<kAmin>>},
    {kAny, OfFirst<AnyOrAll<true>>},
    {kAnyDim, OfFirst<AnyOrAll<true>>},
    {kAnyDims, OfFirst<AnyOrAll<true>>},
    {kAll, OfFirst<AnyOrAll<false>>},
    {kAllDim, OfFirst<AnyOrAll<false>>},
    {kAllDims, OfFirst<AnyOrAll<false>>},
};

using Rules = std::array<Decomposition, ir::kOpNames>;

const Rules& AllRules() {
  static const auto* const rules = [] {
    auto* made = new Rules{};
    for (absl::Span<const DecompositionRow> rows :
         {absl::MakeConstSpan(kRows), NormRows(), BatchNormRows(), PoolingRows(), LossRows(), PointwiseRows()}) {
      for (const auto& [name, rule] : rows) (*made)[static_cast<std::size_t>(name)] = rule;
    }
    return made;
  }();
  return *rules;
}

// Reports of coverage are to have them.
[[maybe_unused]] const bool declared = [] {
  DeclareKinds(kFamily, {kEach});
  for (std::size_t i = 1; i < ir::kOpNames; ++i) {
    const auto name = static_cast<OpName>(i);
    if (AllRules()[i] != nullptr) DeclareKinds(kFamily, {KindOf(name).data()});
  }
  return true;
}();

bool DecomposeNode(Graph& g, const Node& n, NodeWriter w) {
  if (ir::Has(n.op, ir::OpFact::kForeach)) return !n.op->mutates() && Foreach(g, n, w);
  const Decomposition rule = AllRules()[static_cast<std::size_t>(ir::NameOf(n.op))];
  return rule != nullptr && rule(g, n, w);
}

}  // namespace

void InShape(Graph& g, NodeWriter& w, ValueId out, ValueId of) {
  const ir::Value like = g.value(out);
  if (like.sizes == g.value(of).sizes) {
    w.Into(out).To(of, like.dtype);
  } else {
    const ValueId typed = w.To(of, like.dtype);
    w.Into(out).Call(OpName::kView, {Arg::OfValue(typed), Arg::OfDims(like.sizes)}, like);
  }
}

namespace {

template <typename F>
bool DecomposeWhere(Graph& graph, F wanted) {
  std::vector<Node> old = std::move(graph.nodes), nodes;
  graph.nodes.clear();
  bool changed = false;
  for (const Node& n : old) {
    const std::size_t before = nodes.size();
    const bool rewrote = wanted(n) && DecomposeNode(graph, n, NodeWriter(&graph, &nodes, n));
    if (rewrote) {
      if (CountsKinds())
        CountKind(kFamily, ir::Has(n.op, ir::OpFact::kForeach) ? kEach : KindOf(ir::NameOf(n.op)), true);
      changed = true;
      continue;
    }
    nodes.resize(before);
    nodes.push_back(n);
  }
  graph.nodes = std::move(nodes);
  return changed;
}

}  // namespace

absl::StatusOr<bool> Decompose(Graph& graph) {
  DropUnusedIndices(graph);
  return DecomposeWhere(graph, [](const Node&) { return true; });
}

absl::StatusOr<bool> OpenLogSoftmax(Graph& graph) {
  std::set<ValueId> made, opened;  // by a log_softmax of the forward; of these, what the backward reads
  for (const Node& n : graph.nodes) {
    const bool backward = n.phase == ir::Phase::kBackward;
    // What a second derivative does not go through stays whole.
    const bool is_cut = n.detached_uses != 0 || n.history != ir::History::kKept;
    if (ir::Is(n.op, OpName::k_LogSoftmax) && !backward && !is_cut) made.insert(n.outputs[0]);
    if (backward) {
      ir::ForEachUse(n, [&](ValueId v) {
        if (made.contains(v)) opened.insert(v);
      });
    }
  }
  if (opened.empty()) return false;
  return DecomposeWhere(graph, [&](const Node& n) {
    if (ir::Is(n.op, OpName::k_LogSoftmax)) return opened.contains(n.outputs[0]);
    const bool reads = ir::Is(n.op, OpName::k_LogSoftmaxBackwardData) || ir::Is(n.op, OpName::kNllLossBackward);
    return reads && opened.contains(n.args[1].value);
  });
}

}  // namespace framefuse::fusion
