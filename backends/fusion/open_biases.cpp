#include "backends/fusion/open_biases.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/fusion/decompose_rules.h"
#include "backends/fusion/pad_products.h"
#include "backends/fusion/pointwise.h"
#include "backends/fusion/reduction.h"
#include "backends/graph/operators.h"
#include "common/config.h"

namespace framefuse::fusion {
namespace {

using ir::Arg;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

bool IsForDevice(const Graph& g, const Node& n) {
  const ir::Value& out = g.value(n.outputs[0]);
  const bool full = out.dtype == c10::ScalarType::Float || out.dtype == c10::ScalarType::Double;
  return full && (out.device.is_cuda() || config().rewrite_always);
}

bool HasPlainBias(const Graph& g, const Node& n) {
  return ir::Is(n.op, ir::OpName::kAddmm) && n.outputs[0] != kNoValue && IsForDevice(g, n) && AddsPlainBias(g, n);
}

// addmm(bias, a, b), and the views through which kernels read it; its columns are their last dimension.
class Opener {
 public:
  explicit Opener(Graph* graph) : g_(*graph), users_(graph->values.size()), is_output_(graph->values.size(), false) {
    for (std::size_t n = 0; n < g_.nodes.size(); ++n) {
      ir::ForEachUse(g_.nodes[n], [&](ValueId v) { users_[static_cast<std::size_t>(v)].push_back(n); });
    }
    for (const ir::Output& o : g_.outputs) {
      if (o.value != kNoValue) is_output_[static_cast<std::size_t>(o.value)] = true;
    }
  }

  bool Run() {
    for (const Node& n : g_.nodes) {
      if (HasPlainBias(g_, n)) Find(n);
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
  void Find(const Node& addmm) {
    ValueId v = addmm.outputs[0];
    std::set<ValueId> on_the_way;
    while (const Node* view = OnlyView(v)) {
      on_the_way.insert(v);
      v = view->outputs[0];
    }
    const std::vector<std::size_t>& readers = users_[static_cast<std::size_t>(v)];
    const bool kernels = std::all_of(readers.begin(), readers.end(), [&](std::size_t n) {
      ReductionForm form;
      return IsPointwise(g_, g_.nodes[n]) || IsReduction(g_, g_.nodes[n], &form);
    });
    if (readers.empty() || !kernels || is_output_[static_cast<std::size_t>(v)]) return;
    bias_of_[v] = addmm.args[0].value;
    moved_.merge(on_the_way);
  }

  // That alone reads v, with the same last dimension.
  const Node* OnlyView(ValueId v) const {
    const std::vector<std::size_t>& readers = users_[static_cast<std::size_t>(v)];
    if (readers.size() != 1 || is_output_[static_cast<std::size_t>(v)]) return nullptr;
    const Node& n = g_.nodes[readers[0]];
    static constexpr ir::OpNames kViews{ir::OpName::kView,         ir::OpName::k_UnsafeView, ir::OpName::kPermute,
                                        ir::OpName::kTransposeInt, ir::OpName::kUnsqueeze,   ir::OpName::kSqueezeDim};
    if (!kViews.contains(n.op) || n.outputs[0] == kNoValue) return nullptr;
    const ir::Value &from = g_.value(v), &to = g_.value(n.outputs[0]);
    const bool same = !to.sizes.empty() && to.sizes.back() == from.sizes.back() && to.strides.back().Is(1);
    return same && ir::IsDense(g_.exprs, to) ? &n : nullptr;
  }

  static ir::OpId ProductOf(const Node& n) {
    return ir::Is(n.op, ir::OpName::kAddmm) ? ir::RequireOp(ir::OpName::kMm) : n.op;
  }
  static std::vector<Arg> Arguments(const Node& n) {
    if (ir::Is(n.op, ir::OpName::kAddmm)) return {n.args[1], n.args[2]};
    return n.args;
  }

  void AddBehind(const Node& n, NodeWriter& w, ValueId bias) {
    const ir::Value before = g_.value(n.outputs[0]);
    ir::Value& after = g_.value(n.outputs[0]);
    after.storage = -1;
    after.offset = ir::Dim(0);
    const ValueId product = w.Call(ProductOf(n), Arguments(n), before);
    w.Into(n.outputs[0]).Binary(ir::OpName::kAddTensor, product, bias);
  }

  Graph& g_;
  std::vector<std::vector<std::size_t>> users_;
  std::vector<bool> is_output_;
  std::map<ValueId, ValueId> bias_of_;  // by what kernels read
  std::set<ValueId> moved_;             // what is without its bias now: products, and views of them on the way
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
