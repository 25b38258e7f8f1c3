#include "backends/fusion/channels_last.h"

#include <ATen/Context.h>
#include <c10/core/MemoryFormat.h>

#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/fusion/node_writer.h"
#include "backends/fusion/pointwise_table.h"
#include "backends/graph/dim_algebra.h"
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

constexpr std::size_t kRank = 4;

std::vector<Dim> ChannelsLastStrides(ir::ExprTable& exprs, const std::vector<Dim>& sizes) {
  ir::DimAlgebra algebra(exprs);
  const Dim row = algebra.Multiply(sizes[3], sizes[1]);
  return {algebra.Multiply(sizes[2], row), Dim(1), row, sizes[1]};
}

bool IsConvolution(const Node& n) {
  return ir::Is(n.op, ir::OpName::kConvolution) || ir::Is(n.op, ir::OpName::kConvolutionBackward);
}

// They lay their result out like their first operand with four dimensions.
bool FollowsOperands(ir::OpId op) {
  static constexpr ir::OpNames kFollowing{ir::OpName::kMaxPool2dWithIndices,
                                          ir::OpName::kMaxPool2dWithIndicesBackward,
                                          ir::OpName::kAvgPool2d,
                                          ir::OpName::kAvgPool2dBackward,
                                          ir::OpName::k_AdaptiveAvgPool2d,
                                          ir::OpName::kUpsampleNearest2d,
                                          ir::OpName::kUpsampleBilinear2d,
                                          ir::OpName::kCudnnBatchNorm,
                                          ir::OpName::kNativeBatchNorm,
                                          ir::OpName::k_NativeBatchNormLegitNoTraining,
                                          ir::OpName::k_NativeBatchNormLegitFunctional,
                                          ir::OpName::k_NativeBatchNormLegitNoStats,
                                          ir::OpName::k_BatchNormWithUpdateFunctional,
                                          ir::OpName::kNativeBatchNormBackward,
                                          ir::OpName::kBatchNormBackward,
                                          ir::OpName::kCudnnBatchNormBackward};
  return kFollowing.contains(op);
}

bool AllowsTensorCores() {
  try {
    return at::globalContext().allowTF32CuDNN();
  } catch (const std::exception&) {
    return false;  // the program says it in two ways that differ
  }
}

// The integer that an argument is, or `none`.
std::int64_t IntOr(const Node& n, std::string_view argument, std::int64_t none) {
  const int a = n.op->FindArgument(argument);
  if (a < 0) return none;
  const Arg& arg = n.args[static_cast<std::size_t>(a)];
  return arg.kind == Arg::Kind::kConstant && arg.constant.isInt() ? arg.constant.toInt() : none;
}

class Layout {
 public:
  explicit Layout(Graph* graph) : g_(*graph), turned_(graph->values.size(), false) {}

  // Kernels on channels that lie side by side exist for types that tensor cores take, and for one group.
  bool IsWorthwhile() const {
    if (!config().rewrite_for_device) return false;
    bool any = false, others = false;
    for (const Node& n : g_.nodes) {
      if (!IsConvolution(n)) continue;
      others = others || !Serves(n);
      if (!Serves(n)) continue;
      const ir::Value& x = g_.value(Operand(n));
      const bool cores = x.dtype != c10::ScalarType::Float || AllowsTensorCores();
      any = any || config().rewrite_always || (x.device.is_cuda() && cores && g_.exprs.Hint(x.sizes[1]) > 3);
    }
    return any && (!others || config().rewrite_always);
  }

  void Run() {
    const std::vector<Node> old = std::exchange(g_.nodes, {});
    for (const Node& n : old) Walk(n);
    for (ir::Output& o : g_.outputs) {
      if (o.value != kNoValue && (IsTurned(o.value) || loose_.contains(o.value)))
        o.value = AsRecorded(o.value, old.back());
    }
    g_.nodes = std::move(nodes_);
  }

 private:
  static ValueId Operand(const Node& n) { return n.args[ir::Is(n.op, ir::OpName::kConvolution) ? 0 : 1].value; }

  bool Serves(const Node& n) const {
    const ir::Value& x = g_.value(Operand(n));
    const bool backward = !ir::Is(n.op, ir::OpName::kConvolution);
    const Arg& transposed = n.args[backward ? 7 : 6];
    const Arg& groups = n.args[backward ? 9 : 8];
    if (x.sizes.size() != kRank || transposed.kind != Arg::Kind::kConstant || groups.kind != Arg::Kind::kConstant) {
      return false;
    }
    const bool type = x.dtype == c10::ScalarType::Float || c10::isReducedFloatingType(x.dtype);
    return type && !transposed.constant.toBool() && groups.constant.toInt() == 1;
  }

  bool IsTurned(ValueId v) const { return turned_[v]; }

  // Four dimensions that the two layouts order in two ways.
  bool IsImage(ValueId v) {
    const ir::Value& value = g_.value(v);
    if (value.kind != ir::ValueKind::kTensor || value.layout != c10::Layout::Strided || value.rank() != kRank) {
      return false;
    }
    return HasTwoOrders(value) && (IsTurned(v) || ir::IsContiguous(g_.exprs, value));
  }

  void Walk(const Node& n) {
    if (IsConvolution(n) && Serves(n)) {
      Convolution(n);
    } else if (FollowsOperands(n.op) ? AnyTurned(n) : IsPointwiseOfImages(n) || IsCatOfImages(n)) {
      TurnAll(n);
    } else if (IsPieceOfImage(n)) {
      TurnPiece(n);
    } else if (ReadsAnyLayout(n)) {
      Add(n);
    } else {
      Add(WithOperands(n, [&](ValueId v) { return IsTurned(v) ? AsRecorded(v, n) : v; }));
    }
  }

  void Convolution(const Node& n) {
    const bool any = AnyOperand(n, [&](ValueId v) { return IsImage(v); });
    any ? TurnAll(n) : Add(n);
  }

  void TurnAll(const Node& n) {
    Add(WithOperands(n, [&](ValueId v) { return IsImage(v) ? AsChannelsLast(v, n) : v; }));
    for (const ValueId v : n.outputs) {
      if (v == kNoValue || g_.value(v).rank() != kRank) continue;
      if (!IsImage(v)) {
        if (!HasTwoOrders(g_.value(v))) loose_.insert(v);
        continue;
      }
      g_.value(v).strides = ChannelsLastStrides(g_.exprs, g_.value(v).sizes);
      turned_[v] = true;
    }
  }

  // self, dim, start, end, step
  bool IsPieceOfImage(const Node& n) {
    if (!ir::Is(n.op, ir::OpName::kSliceTensor) || !IsTurned(n.args[0].value) || IntOr(n, "step", 0) != 1) return false;
    return IntOr(n, "start", -1) >= 0 && HasTwoOrders(g_.value(n.outputs[0]));
  }

  // The two layouts order it in two ways, whatever memory it is part of.
  static bool HasTwoOrders(const ir::Value& v) {
    if (std::any_of(v.sizes.begin(), v.sizes.end(), [](const Dim& d) { return d.Is(0); })) return false;
    return !v.sizes[1].Is(1) && !(v.sizes[2].Is(1) && v.sizes[3].Is(1));
  }

  void TurnPiece(const Node& n) {
    using ir::ExprKind;
    const ir::Value& whole = g_.value(n.args[0].value);
    ir::Value& piece = g_.value(n.outputs[0]);
    const std::int64_t rank = kRank, named = IntOr(n, "dim", 0);
    const auto d = static_cast<std::size_t>(named < 0 ? named + rank : named);
    const Dim jump = g_.exprs.Make(ExprKind::kMul, whole.strides[d], Dim(IntOr(n, "start", 0)));
    piece.offset = g_.exprs.Make(ExprKind::kAdd, whole.offset, jump);
    piece.strides = whole.strides;
    turned_[n.outputs[0]] = true;
    Add(n);
  }

  template <typename F>
  bool AnyOperand(const Node& n, F f) {
    bool any = false;
    ir::ForEachUse(n, [&](ValueId v) { any = any || f(v); });
    return any;
  }
  bool AnyTurned(const Node& n) {
    return AnyOperand(n, [&](ValueId v) { return IsTurned(v); });
  }

  bool IsPointwiseOfImages(const Node& n) {
    if (n.outputs.size() != 1 || n.outputs[0] == kNoValue || n.op->is_random()) return false;
    if (FindPointwiseRow(n.op) == nullptr || !IsImage(n.outputs[0]) || !KeepsFormat(n)) return false;
    const std::vector<Dim>& sizes = g_.value(n.outputs[0]).sizes;
    return AnyOperand(n, [&](ValueId v) { return IsTurned(v) && g_.value(v).sizes == sizes; });
  }

  // Its result is laid out like its operand, not as an argument says.
  static bool KeepsFormat(const Node& n) {
    constexpr auto kPreserve = static_cast<std::int64_t>(c10::MemoryFormat::Preserve);
    return IntOr(n, "memory_format", kPreserve) == kPreserve;
  }

  // Most of it is laid out anew.
  bool IsCatOfImages(const Node& n) {
    if (!ir::Is(n.op, ir::OpName::kCat) || n.outputs[0] == kNoValue || !IsImage(n.outputs[0])) return false;
    std::size_t turned = 0;
    for (const ValueId v : n.args[0].values) {
      if (!IsImage(v) || g_.value(v).dtype != g_.value(n.outputs[0]).dtype) return false;
      turned += IsTurned(v) ? 1 : 0;
    }
    return 2 * turned > n.args[0].values.size();
  }

  // Sums over whole images: what is left has the same strides whatever the operand's.
  bool ReadsAnyLayout(const Node& n) {
    static constexpr ir::OpNames kReductions{ir::OpName::kMeanDim, ir::OpName::kSumDimIntList, ir::OpName::kAmax,
                                             ir::OpName::kAmin};
    if (!kReductions.contains(n.op) || n.args[1].kind != Arg::Kind::kConstant || !n.args[1].constant.isIntList()) {
      return false;
    }
    std::set<std::int64_t> dims;
    for (const std::int64_t d : n.args[1].constant.toIntVector()) dims.insert(d < 0 ? d + 4 : d);
    const bool is_output =
        std::any_of(g_.outputs.begin(), g_.outputs.end(), [&](const ir::Output& o) { return o.value == n.outputs[0]; });
    return dims.contains(2) && dims.contains(3) && !is_output && AnyTurned(n);
  }

  template <typename F>
  Node WithOperands(const Node& n, F f) {
    Node changed = n;
    for (Arg& arg : changed.args) {
      if (arg.kind == Arg::Kind::kValue) arg.value = f(arg.value);
      if (arg.kind != Arg::Kind::kValueList) continue;
      for (ValueId& v : arg.values) v = v == kNoValue ? v : f(v);
    }
    return changed;
  }

  ValueId AsChannelsLast(ValueId v, const Node& origin) {
    if (IsTurned(v)) return v;
    return Copy(&turned_copies_, v, origin, c10::MemoryFormat::ChannelsLast);
  }
  ValueId AsRecorded(ValueId v, const Node& origin) {
    if (loose_.contains(v)) return Restrided(v, origin);
    return Copy(&recorded_copies_, v, origin, c10::MemoryFormat::Contiguous);
  }

  // In both layouts it lies as it does.
  ValueId Restrided(ValueId v, const Node& origin) {
    ir::Value like = g_.value(v);
    like.offset = Dim(0);
    return NodeWriter(&g_, &nodes_, origin)
        .Call(ir::OpName::kAsStrided,
              {Arg::OfValue(v), Arg::OfDims(like.sizes), Arg::OfDims(like.strides), Arg::OfDim(like.offset)}, like);
  }

  ValueId Copy(std::map<ValueId, ValueId>* copies, ValueId v, const Node& origin, c10::MemoryFormat format) {
    const auto [it, added] = copies->try_emplace(v, kNoValue);
    if (!added) return it->second;
    const bool turned = format == c10::MemoryFormat::ChannelsLast;
    ir::Value like = g_.value(v);
    like.strides = turned ? ChannelsLastStrides(g_.exprs, like.sizes) : ir::ContiguousStrides(g_.exprs, like.sizes);
    like.offset = Dim(0);
    like.storage = -1;
    it->second =
        NodeWriter(&g_, &nodes_, origin)
            .Call(ir::OpName::kClone, {Arg::OfValue(v), Arg::Constant(static_cast<std::int64_t>(format))}, like);
    turned_.push_back(turned);
    return it->second;
  }

  void Add(Node n) { nodes_.push_back(std::move(n)); }

  Graph& g_;
  std::vector<Node> nodes_;
  IndexedVector<ValueId, bool> turned_;  // by value
  std::set<ValueId> loose_;              // strides of dimensions of one element may not be the recorded ones
  std::map<ValueId, ValueId> turned_copies_, recorded_copies_;
};

}  // namespace

bool IsChannelsLast(ir::ExprTable& exprs, const ir::Value& v) {
  if (v.rank() != kRank) return false;
  const std::vector<Dim> strides = ChannelsLastStrides(exprs, v.sizes);
  for (std::size_t d = 0; d < kRank; ++d) {
    if (!v.sizes[d].Is(1) && !(v.strides[d] == strides[d])) return false;
  }
  return true;
}

absl::StatusOr<bool> LayOutChannelsLast(Graph& graph) {
  Layout layout(&graph);
  if (!layout.IsWorthwhile()) return false;
  layout.Run();
  return true;
}

}  // namespace framefuse::fusion
