#include "backends/fusion/open_biases.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/fusion/decompose_rules.h"
#include "backends/fusion/node_kinds.h"
#include "backends/fusion/pad_products.h"
#include "backends/fusion/pointwise.h"
#include "backends/fusion/reduction.h"
#include "backends/graph/operators.h"
#include "common/config.h"
#include "common/indexed_vector.h"

namespace framefuse::fusion {
namespace {

using ir::Arg;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

bool IsForDevice(const Graph& g, const Node& n) {
  return g.value(n.outputs[0]).device.is_cuda() || config().rewrite_always;
}

constexpr std::size_t kConvolutionBias = 2;

// A product or a convolution that adds a bias, whose elements lie along one dimension of the result.
struct Bias {
  ValueId value = kNoValue;
  std::size_t dim = 0;
};

std::optional<Bias> BiasOf(const Graph& g, const Node& n) {
  if (n.outputs.empty() || n.outputs[0] == kNoValue || !IsForDevice(g, n)) return std::nullopt;
  const ir::Value& out = g.value(n.outputs[0]);
  const bool full = out.dtype == c10::ScalarType::Float || out.dtype == c10::ScalarType::Double;
  if (ir::Is(n.op, ir::OpName::kConvolution)) {
    const Arg& bias = n.args[kConvolutionBias];
    // On a CPU the bias is added to a half before that is rounded.
    const bool rounds_before = full || (out.device.is_cuda() && IsRealFloat(out));
    if (bias.kind != Arg::Kind::kValue || out.rank() < 3 || !rounds_before) return std::nullopt;
    const ir::Value& b = g.value(bias.value);
    if (b.dtype != out.dtype || b.rank() != 1 || b.sizes[0] != out.sizes[1]) return std::nullopt;
    return Bias{bias.value, 1};
  }
  if (!ir::Is(n.op, ir::OpName::kAddmm) || !full || !AddsPlainBias(g, n)) return std::nullopt;
  return Bias{n.args[0].value, 1};
}

// Where dimension `dim` is behind a view; none if it is not one dimension there.
std::optional<std::size_t> DimBehind(const Graph& g, const Node& view, std::size_t dim) {
  const ir::Value &from = g.value(view.args[0].value), &to = g.value(view.outputs[0]);
  const auto number = [&](std::size_t argument, std::size_t rank) {
    const std::int64_t d = view.args[argument].constant.toInt();
    return static_cast<std::size_t>(d < 0 ? d + static_cast<std::int64_t>(rank) : d);
  };
  if (ir::Is(view.op, ir::OpName::kView) || ir::Is(view.op, ir::OpName::k_UnsafeView)) {
    const bool last = dim + 1 == from.rank() && !to.sizes.empty() && to.sizes.back() == from.sizes.back();
    return last && to.strides.back().Is(1) ? std::optional(to.rank() - 1) : std::nullopt;
  }
  if (ir::Is(view.op, ir::OpName::kPermute)) {
    const std::vector<std::int64_t> order = view.args[1].constant.toIntVector();
    const auto rank = static_cast<std::int64_t>(from.rank());
    const auto at = std::find_if(order.begin(), order.end(),
                                 [&](std::int64_t d) { return static_cast<std::size_t>(d < 0 ? d + rank : d) == dim; });
    return static_cast<std::size_t>(at - order.begin());
  }
  if (ir::Is(view.op, ir::OpName::kTransposeInt)) {
    const std::size_t a = number(1, from.rank()), b = number(2, from.rank());
    return dim == a ? b : dim == b ? a : dim;
  }
  if (ir::Is(view.op, ir::OpName::kT)) return from.rank() < 2 ? dim : 1 - dim;
  if (ir::Is(view.op, ir::OpName::kUnsqueeze)) return dim + (number(1, to.rank()) <= dim ? 1 : 0);
  if (!ir::Is(view.op, ir::OpName::kSqueezeDim) || from.rank() == to.rank()) return std::nullopt;
  const std::size_t gone = number(1, from.rank());
  return gone == dim ? std::nullopt : std::optional(dim - (gone < dim ? 1 : 0));
}

// Products with a bias, and the views through which kernels read them.
class Opener {
 public:
  explicit Opener(Graph* graph) : g_(*graph), users_(graph->values.size()), is_output_(graph->values.size(), false) {
    for (std::size_t n = 0; n < g_.nodes.size(); ++n) {
      ir::ForEachUse(g_.nodes[n], [&](ValueId v) { users_[v].push_back(n); });
    }
    for (const ir::Output& o : g_.outputs) {
      if (o.value != kNoValue) is_output_[o.value] = true;
    }
  }

  bool Run() {
    for (const Node& n : g_.nodes) {
      if (const std::optional<Bias> bias = BiasOf(g_, n)) Find(n, *bias);
    }
    if (bias_of_.empty()) return false;
    const std::vector<Node> old = std::exchange(g_.nodes, {});
    std::vector<Node> nodes;
    for (const Node& n : old) {
      const ValueId out = n.outputs.size() == 1 ? n.outputs[0] : kNoValue;
      NodeWriter w(&g_, &nodes, n);
      if (const auto bias = bias_of_.find(out); bias != bias_of_.end()) {
        AddBehind(n, w, bias->second);
      } else if (moved_.contains(out)) {
        w.Into(out).Call(ProductOf(n), Arguments(n), g_.value(out));
      } else {
        nodes.push_back(n);
      }
    }
    g_.nodes = std::move(nodes);
    return true;
  }

 private:
  void Find(const Node& product, Bias bias) {
    ValueId v = product.outputs[0];
    std::set<ValueId> on_the_way;
    while (const Node* view = OnlyView(v)) {
      const std::optional<std::size_t> dim = DimBehind(g_, *view, bias.dim);
      if (!dim) break;
      bias.dim = *dim;
      on_the_way.insert(v);
      v = view->outputs[0];
    }
    const std::vector<std::size_t>& readers = users_[v];
    const bool kernels = std::all_of(readers.begin(), readers.end(), [&](std::size_t n) {
      ReductionForm form;
      return IsPointwise(g_, g_.nodes[n]) || IsReduction(g_, g_.nodes[n], &form);
    });
    if (readers.empty() || !kernels || is_output_[v]) return;
    bias_of_[v] = bias;
    moved_.merge(on_the_way);
  }

  // That alone reads v.
  const Node* OnlyView(ValueId v) const {
    const std::vector<std::size_t>& readers = users_[v];
    if (readers.size() != 1 || is_output_[v]) return nullptr;
    const Node& n = g_.nodes[readers[0]];
    if (!IsWholeView(n) || n.outputs[0] == kNoValue) return nullptr;
    return ir::IsDense(g_.exprs, g_.value(n.outputs[0])) ? &n : nullptr;
  }

  static ir::OpId ProductOf(const Node& n) {
    return ir::Is(n.op, ir::OpName::kAddmm) ? ir::RequireOp(ir::OpName::kMm) : n.op;
  }
  static std::vector<Arg> Arguments(const Node& n) {
    if (ir::Is(n.op, ir::OpName::kAddmm)) return {n.args[1], n.args[2]};
    std::vector<Arg> args = n.args;
    if (ir::Is(n.op, ir::OpName::kConvolution)) args[kConvolutionBias] = Arg::None();
    return args;
  }

  void AddBehind(const Node& n, NodeWriter& w, const Bias& bias) {
    const ir::Value before = g_.value(n.outputs[0]);
    ir::Value& after = g_.value(n.outputs[0]);
    after.storage = -1;
    after.offset = ir::Dim(0);
    const ValueId product = w.Call(ProductOf(n), Arguments(n), before);
    ValueId added = bias.value;
    if (bias.dim + 1 < before.rank()) {
      std::vector<ir::Dim> sizes(before.rank() - bias.dim, ir::Dim(1));
      sizes[0] = before.sizes[bias.dim];
      added = w.ViewAs(added, std::move(sizes));
    }
    w.Into(n.outputs[0]).Binary(ir::OpName::kAddTensor, product, added);
  }

  Graph& g_;
  IndexedVector<ValueId, std::vector<std::size_t>> users_;
  IndexedVector<ValueId, bool> is_output_;
  std::map<ValueId, Bias> bias_of_;  // by what kernels read
  std::set<ValueId> moved_;          // what is without its bias now: products, and views of them on the way
};

constexpr std::size_t kMask = 10;  // of convolution_backward: which gradients it gives

bool GivesBias(const Graph& g, const Node& n) {
  if (!ir::Is(n.op, ir::OpName::kConvolutionBackward) || n.outputs[2] == kNoValue) return false;
  const ir::Value& grad = g.value(n.args[0].value);
  return (grad.device.is_cuda() || config().rewrite_always) && IsRealFloat(grad) && grad.rank() > 2 &&
         grad.dtype == g.value(n.outputs[2]).dtype && n.args[kMask].kind == Arg::Kind::kConstant;
}

// A gradient of a convolution's bias is a sum over batch and points; a kernel makes it that has the gradient at hand.
bool SumBiases(Graph* g) {
  std::vector<Node> old = std::exchange(g->nodes, {}), nodes;
  bool changed = false;
  for (Node& n : old) {
    if (!GivesBias(*g, n)) {
      nodes.push_back(std::move(n));
      continue;
    }
    changed = true;
    const ValueId bias = std::exchange(n.outputs[2], kNoValue), grad = n.args[0].value;
    c10::List<bool> mask = n.args[kMask].constant.toBoolList().copy();
    mask.set(2, false);
    n.args[kMask] = Arg::Constant(mask);
    Dims dims = {0};
    for (std::size_t d = 2; d < g->value(grad).rank(); ++d) dims.push_back(static_cast<std::int64_t>(d));
    NodeWriter w(g, &nodes, n);
    const c10::ScalarType type = g->value(grad).dtype;
    const ValueId from = w.To(grad, Wide(type));
    const ValueId sum = (Wide(type) == type ? w.Into(bias) : w).Reduce(ir::OpName::kSumDimIntList, from, dims, false);
    if (Wide(type) != type) w.Into(bias).To(sum, type);
    const bool others = n.outputs[0] != kNoValue || n.outputs[1] != kNoValue;
    if (others) nodes.push_back(std::move(n));
  }
  g->nodes = std::move(nodes);
  return changed;
}

}  // namespace

absl::StatusOr<bool> OpenBiases(Graph& g) {
  if (!config().rewrite_for_device) return false;
  const bool added = Opener(&g).Run(), summed = SumBiases(&g);
  return added || summed;
}

}  // namespace framefuse::fusion
