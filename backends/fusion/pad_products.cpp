#include "backends/fusion/pad_products.h"

#include <c10/core/MemoryFormat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "backends/fusion/node_writer.h"
#include "backends/graph/operators.h"
#include "common/config.h"
#include "common/indexed_vector.h"

namespace framefuse::fusion {
namespace {

using ir::Arg;
using ir::Dim;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;
using Sizes = std::array<std::int64_t, 2>;

constexpr std::int64_t kAligned = 8;  // halves in 16 bytes
// Bytes that a device moves while it computes one operation less fast: an H200 does 90 T/s unaligned, 650 T/s aligned,
// and moves 3 TB/s. Other devices are in about the same proportion.
constexpr double kBytesAnOperation = 0.028;
constexpr double kBytesAKernel = 15e6;

std::int64_t Padded(std::int64_t size) { return (size + kAligned - 1) / kAligned * kAligned; }

struct Product {
  ValueId bias = kNoValue, a = kNoValue, b = kNoValue;
  std::int64_t m = 0, k = 0, n = 0;
};

// A matrix in memory: rows or columns lie side by side.
struct Matrix {
  Sizes sizes;
  bool columns = false;  // of columns that lie side by side
  std::size_t inner() const { return columns ? 0 : 1; }
};

std::optional<Matrix> MatrixOf(const ir::Value& v) {
  if (v.rank() != 2 || v.layout != c10::Layout::Strided) return std::nullopt;
  for (std::size_t d = 0; d < 2; ++d) {
    if (!v.sizes[d].is_constant() || !v.strides[d].is_constant() || v.sizes[d].constant() < 2) return std::nullopt;
  }
  const Matrix m{{v.sizes[0].constant(), v.sizes[1].constant()}, v.strides[0].Is(1)};
  if (!v.strides[m.inner()].Is(1)) return std::nullopt;
  return m;
}

// mm(a, b) or addmm(bias, a, b, beta=1, alpha=1) with a bias of a row.
std::optional<Product> ProductOf(const Graph& g, const Node& n) {
  const bool with_bias = ir::Is(n.op, ir::OpName::kAddmm);
  if ((!with_bias && !ir::Is(n.op, ir::OpName::kMm)) || n.outputs[0] == kNoValue) return std::nullopt;
  Product p;
  p.a = n.args[with_bias ? 1 : 0].value;
  p.b = n.args[with_bias ? 2 : 1].value;
  const auto a = MatrixOf(g.value(p.a)), b = MatrixOf(g.value(p.b)), out = MatrixOf(g.value(n.outputs[0]));
  if (!a || !b || !out || out->columns) return std::nullopt;
  p.m = a->sizes[0], p.k = a->sizes[1], p.n = b->sizes[1];
  if (!with_bias) return p;
  p.bias = n.args[0].value;
  return AddsPlainBias(g, n) ? std::optional(p) : std::nullopt;
}

class Padder {
 public:
  explicit Padder(Graph* graph) : g_(*graph), definitions_(graph->Definitions()) {}

  bool Run() {
    const std::vector<Node> old = std::exchange(g_.nodes, {});
    bool changed = false;
    for (const Node& n : old) {
      const std::optional<Product> p = ProductOf(g_, n);
      if (p && Pays(*p, n)) {
        Pad(*p, n, old);
        changed = true;
      } else {
        nodes_.push_back(n);
      }
    }
    g_.nodes = std::move(nodes_);
    return changed;
  }

 private:
  // Of the sizes that some matrix has side by side; the result has its columns so.
  Product WithPads(const Product& p) const {
    const bool a = MatrixOf(g_.value(p.a))->columns, b = MatrixOf(g_.value(p.b))->columns;
    Product wide = p;
    if (a) wide.m = Padded(p.m);
    if (!a || b) wide.k = Padded(p.k);
    wide.n = Padded(p.n);
    return wide;
  }

  bool Pays(const Product& p, const Node& n) const {
    const ir::Value& out = g_.value(n.outputs[0]);
    const Product wide = WithPads(p);
    const bool pads_a = wide.m != p.m || wide.k != p.k, pads_b = wide.k != p.k || wide.n != p.n;
    const bool cuts = wide.m != p.m || wide.n != p.n;
    if (!(pads_a || pads_b) || !c10::isFloatingType(out.dtype)) return false;
    if (config().rewrite_always) return true;
    if (!out.device.is_cuda() || !c10::isReducedFloatingType(out.dtype)) return false;
    const auto size = [](std::int64_t x, std::int64_t y) { return static_cast<double>(x) * static_cast<double>(y); };
    double elements = 0, kernels = 0;
    for (const auto& [pads, count] :
         {std::pair(pads_a, size(p.m, p.k)), {pads_b, size(p.k, p.n)}, {cuts, size(p.m, p.n)}}) {
      elements += pads ? count : 0;
      kernels += pads ? 1 : 0;
    }
    const double cost = elements * 2 * static_cast<double>(c10::elementSize(out.dtype)) + kernels * kBytesAKernel;
    return 2 * size(p.m, p.k) * static_cast<double>(p.n) * kBytesAnOperation > cost;
  }

  void Pad(const Product& p, const Node& n, const std::vector<Node>& old) {
    const Product wide = WithPads(p);
    const ValueId a = PadMatrix(p.a, {wide.m, wide.k}, n, old), b = PadMatrix(p.b, {wide.k, wide.n}, n, old);
    NodeWriter w(&g_, &nodes_, n);
    const ir::Value out = g_.value(n.outputs[0]);
    const ir::Value like = Laid(out, {wide.m, wide.n}, false);
    std::vector<Arg> args = {Arg::OfValue(a), Arg::OfValue(b)};
    if (p.bias != kNoValue) {
      args.insert(args.begin(), Arg::OfValue(wide.n != p.n ? PadWith(p.bias, {wide.n}, n) : p.bias));
    }
    if (wide.m == p.m && wide.n == p.n) w.Into(n.outputs[0]);
    const ValueId product = w.Call(n.op, std::move(args), like);
    if (wide.m == p.m && wide.n == p.n) return;
    ir::Value part = out;
    part.strides = {Dim(wide.n), Dim(1)};
    ValueId cut = product;
    if (wide.m != p.m) cut = Slice(w, cut, 0, p.m, part, wide.n);
    if (wide.n != p.n) cut = Slice(w, cut, 1, p.n, part, p.n);
    constexpr auto kContiguous = static_cast<std::int64_t>(c10::MemoryFormat::Contiguous);
    w.Into(n.outputs[0]).Call(ir::OpName::kClone, {Arg::OfValue(cut), Arg::Constant(kContiguous)}, out);
  }

  static ValueId Slice(NodeWriter& w, ValueId v, std::int64_t dim, std::int64_t end, ir::Value like,
                       std::int64_t columns) {
    like.sizes[1] = Dim(columns);
    const auto number = [](std::int64_t x) { return Arg::Constant(x); };
    return w.Call(ir::OpName::kSliceTensor, {Arg::OfValue(v), number(dim), number(0), number(end), number(1)}, like);
  }

  static ir::Value Laid(ir::Value like, Sizes sizes, bool columns) {
    like.sizes = {Dim(sizes[0]), Dim(sizes[1])};
    like.strides = columns ? std::vector<Dim>{Dim(1), Dim(sizes[0])} : std::vector<Dim>{Dim(sizes[1]), Dim(1)};
    like.offset = Dim(0);
    like.storage = -1;
    return like;
  }

  // Padded as it lies in memory, so that its rows stay rows.
  ValueId PadMatrix(ValueId v, Sizes to, const Node& origin, const std::vector<Node>& old) {
    const Matrix m = *MatrixOf(g_.value(v));
    if (m.sizes == to) return v;
    if (!m.columns) return PadWith(v, {to[0], to[1]}, origin);
    NodeWriter w(&g_, &nodes_, origin);
    const ValueId rows = PadWith(Transposed(v, w, old), {to[1], to[0]}, origin);
    return w.Call(ir::OpName::kT, {Arg::OfValue(rows)}, Laid(g_.value(v), to, true));
  }

  // Of what it is the transposed of, if that is known: a kernel may write it where it is padded.
  ValueId Transposed(ValueId v, NodeWriter& w, const std::vector<Node>& old) {
    const ir::NodeIndex by = definitions_[v];
    if (by != ir::kNoNode && ir::Is(old[static_cast<std::size_t>(by)].op, ir::OpName::kT)) {
      return old[static_cast<std::size_t>(by)].args[0].value;
    }
    const ir::Value& value = g_.value(v);
    ir::Value like = value;
    std::swap(like.sizes[0], like.sizes[1]);
    std::swap(like.strides[0], like.strides[1]);
    return w.Call(ir::OpName::kT, {Arg::OfValue(v)}, like);
  }

  ValueId PadWith(ValueId v, const std::vector<std::int64_t>& to, const Node& origin) {
    const auto [it, added] = padded_.try_emplace({v, to}, kNoValue);
    if (!added) return it->second;
    ir::Value like = g_.value(v);
    std::vector<std::int64_t> pads;  // the last dimension first, in front and behind
    for (std::size_t d = to.size(); d-- > 0;) {
      pads.push_back(0);
      pads.push_back(to[d] - like.sizes[d].constant());
    }
    like.sizes.assign(to.begin(), to.end());
    like.strides = ir::ContiguousStrides(g_.exprs, like.sizes);
    like.offset = Dim(0);
    like.storage = -1;
    const Arg none = Arg::Constant(c10::List<std::int64_t>(pads)), zero = Arg::Constant(std::int64_t{0});
    return it->second =
               NodeWriter(&g_, &nodes_, origin).Call(ir::OpName::kConstantPadNd, {Arg::OfValue(v), none, zero}, like);
  }

  Graph& g_;
  IndexedVector<ValueId, ir::NodeIndex> definitions_;  // of the nodes as they were
  std::vector<Node> nodes_;
  std::map<std::pair<ValueId, std::vector<std::int64_t>>, ValueId> padded_;
};

}  // namespace

bool AddsPlainBias(const Graph& g, const Node& n) {
  const ir::Value& bias = g.value(n.args[0].value);
  const auto is_one = [](const Arg& x) {
    return x.kind == Arg::Kind::kConstant && x.constant.toScalar().toDouble() == 1;
  };
  return bias.rank() == 1 && bias.sizes[0] == g.value(n.outputs[0]).sizes[1] && is_one(n.args[3]) && is_one(n.args[4]);
}

absl::StatusOr<bool> PadProducts(Graph& graph) { return config().rewrite_for_device && Padder(&graph).Run(); }

std::optional<std::vector<std::int64_t>> PadFormOf(const Graph& graph, const Node& node) {
  if (!ir::Is(node.op, ir::OpName::kConstantPadNd) || node.outputs[0] == kNoValue) return std::nullopt;
  const ir::Value &in = graph.value(node.args[0].value), &out = graph.value(node.outputs[0]);
  const Arg &pads = node.args[1], &fill = node.args[2];
  const auto constant = [](const Dim& d) { return d.is_constant() && !d.Is(0); };
  if (!std::all_of(in.sizes.begin(), in.sizes.end(), constant) || out.layout != c10::Layout::Strided)
    return std::nullopt;
  if (pads.kind != Arg::Kind::kConstant || fill.kind != Arg::Kind::kConstant || in.sizes.empty()) return std::nullopt;
  if (!fill.constant.isScalar() || fill.constant.toScalar().isComplex()) return std::nullopt;
  const double value = fill.constant.toScalar().toDouble();
  if (value != 0 || std::signbit(value)) return std::nullopt;
  std::vector<std::int64_t> behind(in.rank(), 0);
  const std::vector<std::int64_t> given = pads.constant.toIntVector();
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (i % 2 == 0 ? given[i] != 0 : given[i] < 0) return std::nullopt;
    if (i % 2 == 1) behind[in.rank() - 1 - i / 2] = given[i];
  }
  return behind;
}

}  // namespace framefuse::fusion
