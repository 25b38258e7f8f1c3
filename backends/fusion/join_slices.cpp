#include "backends/fusion/join_slices.h"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "backends/fusion/decompose_rules.h"
#include "backends/fusion/pointwise.h"
#include "backends/graph/dim_algebra.h"
#include "backends/graph/operators.h"
#include "backends/graph/uses.h"
#include "common/indexed_vector.h"

namespace framefuse::fusion {
namespace {

using ir::Arg;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

// What a node gives is zero but for elements begin..end-1 along its dimension `dim`.
struct Part {
  ValueId grad = kNoValue;
  bool selected = false;  // without the dimension
  std::int64_t dim = 0, begin = 0, end = 0;
};

// Parts of one tensor along one dimension, which do not meet; and at most one other summand.
struct Sum {
  std::vector<Part> parts;
  ValueId other = kNoValue;
};

std::optional<std::int64_t> Number(const Arg& arg) {
  if (arg.kind != Arg::Kind::kConstant || !arg.constant.isInt()) return std::nullopt;
  return arg.constant.toInt();
}

// Of x[begin:end] and x[begin] with the gradient `grad`.
std::optional<Part> PartOf(const Graph& g, const Node& n) {
  const bool selected = ir::Is(n.op, ir::OpName::kSelectBackward);
  if (!selected && !ir::Is(n.op, ir::OpName::kSliceBackward)) return std::nullopt;
  const ir::Value& out = g.value(n.outputs[0]);
  const std::optional<std::int64_t> named = Number(n.args[2]), first = Number(n.args[3]);
  if (!named || !first) return std::nullopt;
  Part part{.grad = n.args[0].value, .selected = selected};
  part.dim = *named < 0 ? *named + static_cast<std::int64_t>(out.sizes.size()) : *named;
  const ir::Dim& extent = out.sizes[static_cast<std::size_t>(part.dim)];
  if (!extent.is_constant()) return std::nullopt;
  const std::int64_t size = extent.constant();
  const auto within = [size](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  part.begin = within(*first);
  part.end = part.begin + 1;
  if (selected) return part;
  const std::optional<std::int64_t> last = Number(n.args[4]);
  if (!last || Number(n.args[5]) != 1) return std::nullopt;
  part.end = std::max(part.begin, within(*last));
  const ir::Dim& given = g.value(part.grad).sizes[static_cast<std::size_t>(part.dim)];
  return given == ir::Dim(part.end - part.begin) ? std::optional(part) : std::nullopt;
}

bool Covers(const Sum& sum, const ir::Value& whole) {
  std::int64_t at = 0;
  for (const Part& p : sum.parts) {
    if (p.begin != at) return false;
    at = p.end;
  }
  return sum.parts.size() > 1 && whole.sizes[static_cast<std::size_t>(sum.parts[0].dim)] == ir::Dim(at);
}

class SliceJoiner {
 public:
  explicit SliceJoiner(Graph* graph) : g_(*graph), uses_(ir::CountUses(*graph)) {}

  bool Run() {
    std::vector<Node> old = std::move(g_.nodes);
    g_.nodes.clear();
    bool changed = false;
    for (Node& n : old) {
      if (n.outputs.size() == 1 && n.outputs[0] != kNoValue && IsWhole(g_.value(n.outputs[0]))) {
        if (const std::optional<Part> part = PartOf(g_, n)) {
          sums_[n.outputs[0]] = {{*part}, kNoValue};
        } else if (const std::optional<Sum> sum = SumOf(n)) {
          if (Covers(*sum, g_.value(n.outputs[0]))) {
            Write(n, *sum);
            changed = true;
            continue;
          }
          sums_[n.outputs[0]] = *sum;
        }
      }
      nodes_.push_back(std::move(n));
    }
    g_.nodes = std::move(nodes_);
    return changed;
  }

 private:
  bool IsWhole(const ir::Value& v) {
    return v.layout == c10::Layout::Strided && StorageOf(v.dtype).has_value() && ir::IsContiguous(g_.exprs, v);
  }

  // What a summand is: a sum of parts that nobody else reads, or another summand.
  Sum Summand(ValueId v) const {
    const auto known = sums_.find(v);
    const bool once = uses_[v] == 1;
    return known != sums_.end() && once ? known->second : Sum{{}, v};
  }

  std::optional<Sum> SumOf(const Node& n) {
    if (!ir::Is(n.op, ir::OpName::kAddTensor) || n.args[0].kind != Arg::Kind::kValue ||
        n.args[1].kind != Arg::Kind::kValue || Number(n.args[2]) != 1) {
      return std::nullopt;
    }
    const ir::Value& out = g_.value(n.outputs[0]);
    for (std::size_t a : {0u, 1u}) {
      const ir::Value& v = g_.value(n.args[a].value);
      if (v.sizes != out.sizes || v.dtype != out.dtype || !IsWhole(v)) return std::nullopt;
    }
    Sum sum = Summand(n.args[0].value);
    const Sum right = Summand(n.args[1].value);
    if (sum.other != kNoValue && right.other != kNoValue) return std::nullopt;
    if (sum.other == kNoValue) sum.other = right.other;
    sum.parts.insert(sum.parts.end(), right.parts.begin(), right.parts.end());
    std::sort(sum.parts.begin(), sum.parts.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < sum.parts.size(); ++i) {
      if (sum.parts[i].dim != sum.parts[0].dim || sum.parts[i].begin < sum.parts[i - 1].end) return std::nullopt;
    }
    return sum.parts.empty() ? std::nullopt : std::optional(std::move(sum));
  }

  void Write(const Node& n, const Sum& sum) {
    NodeWriter w(&g_, &nodes_, n);
    const ir::Value like = g_.value(n.outputs[0]);
    std::vector<ValueId> pieces;
    for (const Part& p : sum.parts) pieces.push_back(Copy(w, Piece(w, p)));
    if (sum.other == kNoValue) w.Into(n.outputs[0]);
    const ValueId joined = w.Call(ir::OpName::kCat, {Arg::OfValues(std::move(pieces)), Arg::Constant(sum.parts[0].dim)},
                                  w.Like(like.sizes, like.dtype, like.device));
    if (sum.other != kNoValue) w.Into(n.outputs[0]).Binary(ir::OpName::kAddTensor, sum.other, joined);
  }

  // Contiguous in each dimension, also of size 1: ATen's own concatenation goes by strides, and would give
  // channels_last.
  ValueId Copy(NodeWriter& w, ValueId piece) {
    const ir::Value v = g_.value(piece);
    return w.Call(ir::OpName::kAddScalar, {Arg::OfValue(piece), Arg::Constant(0.0)},
                  w.Like(v.sizes, v.dtype, v.device));
  }

  // In the order of a contiguous tensor, as the whole is.
  ValueId Piece(NodeWriter& w, const Part& p) {
    if (!p.selected) return InOrder(g_, w, p.grad);
    ir::Value like = g_.value(p.grad);
    const auto at = static_cast<std::ptrdiff_t>(p.dim);
    const auto before = static_cast<std::size_t>(p.dim);
    const bool last = before == like.sizes.size();
    const ir::Dim stride =
        last ? ir::Dim(1) : ir::DimAlgebra(g_.exprs).Multiply(like.sizes[before], like.strides[before]);
    like.sizes.insert(like.sizes.begin() + at, ir::Dim(1));
    like.strides.insert(like.strides.begin() + at, stride);
    return InOrder(g_, w, w.Call(ir::OpName::kUnsqueeze, {Arg::OfValue(p.grad), Arg::Constant(p.dim)}, like));
  }

  Graph& g_;
  IndexedVector<ValueId, int> uses_;  // of the values that were there before
  std::vector<Node> nodes_;
  std::map<ValueId, Sum> sums_;  // by result: gradients of slices, and their sums
};

}  // namespace

absl::StatusOr<bool> JoinSlices(Graph& graph) {
  const bool any = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) {
    return ir::Is(n.op, ir::OpName::kSelectBackward) || ir::Is(n.op, ir::OpName::kSliceBackward);
  });
  return any && graph.functional && SliceJoiner(&graph).Run();
}

}  // namespace framefuse::fusion
