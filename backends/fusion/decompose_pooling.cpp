// The largest of each window of a channels_last image (max_pool2d), whose indices nobody uses: for each of the window's
// points a gather of rows of channels, and the largest of them. What lies outside of the image is replaced by the
// nearest point inside, which belongs to the window anyhow. See decompose_rules.h.
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <limits>

#include "backends/fusion/channels_last.h"
#include "backends/fusion/decompose_rules.h"
#include "backends/graph/operators.h"
#include "common/config.h"

namespace framefuse::fusion {
namespace {

using ir::Arg;
using ir::Dim;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

constexpr std::int64_t kMostPoints = 9;           // of a window: each is a buffer of the kernel
constexpr std::int64_t kLeastChannels = 32;       // a gather's shortest row
constexpr std::int64_t kMostIndices = 1ll << 23;  // of all of a window's points
constexpr std::array<std::int64_t, 2> kOne{1, 1}, kNone{0, 0};

using Pair = std::array<std::int64_t, 2>;

// Of height and width; one number holds for both. Nothing: it is symbolic.
std::optional<Pair> PairOf(const Node& n, std::string_view argument, std::optional<Pair> absent) {
  const int a = n.op->FindArgument(argument);
  const Arg& arg = n.args[static_cast<std::size_t>(a)];
  if (arg.kind == Arg::Kind::kNone) return absent;
  if (arg.kind != Arg::Kind::kConstant || !arg.constant.isIntList()) return std::nullopt;
  const std::vector<std::int64_t> list = arg.constant.toIntVector();
  if (list.empty()) return absent;
  return Pair{list.front(), list.back()};
}

struct Window {
  Pair kernel, stride, padding;
  Dims in, out;  // sizes
  std::int64_t points() const { return kernel[0] * kernel[1]; }
  std::int64_t places() const { return out[0] * out[2] * out[3]; }
};

std::optional<Window> WindowOf(Graph& g, const Node& n) {
  const ir::Value &x = g.value(n.args[0].value), &out = g.value(n.outputs[0]);
  const bool indices = n.outputs.size() > 1 && n.outputs[1] != kNoValue;
  if (indices || !IsRealFloat(x) || x.sizes.size() != 4 || !IsChannelsLast(g.exprs, x)) return std::nullopt;
  if (!config().rewrite_for_device || !(x.device.is_cuda() || config().rewrite_always)) return std::nullopt;
  const std::optional<Dims> in = Constants(x.sizes), sizes = Constants(out.sizes);
  const std::optional<Pair> kernel = PairOf(n, "kernel_size", std::nullopt), padding = PairOf(n, "padding", kNone);
  if (!in || !sizes || !kernel || !padding || PairOf(n, "dilation", kOne) != kOne) return std::nullopt;
  const std::optional<Pair> stride = PairOf(n, "stride", kernel);
  if (!stride) return std::nullopt;
  const Window w{*kernel, *stride, *padding, *in, *sizes};
  const std::int64_t rows = w.in[0] * w.in[2] * w.in[3];
  if (w.points() < 2 || w.points() > kMostPoints || w.in[1] < kLeastChannels) return std::nullopt;
  if (rows == 0 || rows > std::numeric_limits<std::int32_t>::max() || w.places() == 0) return std::nullopt;
  return w.points() * w.places() <= kMostIndices ? std::optional(w) : std::nullopt;
}

// For each place of the result the row of the image, seen as rows of channels, that is point (i, j) of its window.
at::Tensor RowsAt(const Window& w, std::int64_t i, std::int64_t j, c10::Device device) {
  const at::Tensor rows = at::empty({w.places()}, at::TensorOptions().dtype(at::kInt));
  auto* to = rows.mutable_data_ptr<std::int32_t>();
  const auto inside = [&](std::int64_t at, std::size_t side, std::int64_t step) {
    return std::clamp<std::int64_t>(at * w.stride[side] - w.padding[side] + step, 0, w.in[side + 2] - 1);
  };
  for (std::int64_t image = 0; image < w.out[0]; ++image) {
    for (std::int64_t y = 0; y < w.out[2]; ++y) {
      const std::int64_t row = (image * w.in[2] + inside(y, 0, i)) * w.in[3];
      for (std::int64_t x = 0; x < w.out[3]; ++x) *to++ = static_cast<std::int32_t>(row + inside(x, 1, j));
    }
  }
  return rows.to(device);
}

ValueId Seen(NodeWriter& w, ValueId of, const ir::Value& as) {
  return w.Call(OpName::kAsStrided,
                {Arg::OfValue(of), Arg::OfDims(as.sizes), Arg::OfDims(as.strides), Arg::OfDim(as.offset)}, as);
}

bool MaxPool(Graph& g, const Node& n, NodeWriter w) {
  const std::optional<Window> window = WindowOf(g, n);
  if (!window) return false;
  const ir::Value x = g.value(n.args[0].value), out = g.value(n.outputs[0]);
  const Dim channels = x.sizes[1];
  ir::Value table = w.Like({Dim(window->in[0] * window->in[2] * window->in[3]), channels}, x.dtype, x.device);
  table.offset = x.offset;
  const ValueId rows = Seen(w, n.args[0].value, table);
  const ir::Value gathered = w.Like({Dim(window->places()), channels}, x.dtype, x.device);
  ValueId largest = kNoValue;
  for (std::int64_t i = 0; i < window->kernel[0]; ++i) {
    for (std::int64_t j = 0; j < window->kernel[1]; ++j) {
      const ValueId index = g.AddConstant(RowsAt(*window, i, j, x.device));
      const ValueId point = w.Call(OpName::kEmbedding, {Arg::OfValue(rows), Arg::OfValue(index)}, gathered);
      largest = largest == kNoValue ? point : w.Binary(OpName::kMaximum, largest, point);
    }
  }
  w.Into(n.outputs[0]);
  Seen(w, largest, out);
  return true;
}

constexpr std::array<DecompositionRow, 1> kRows = {{{OpName::kMaxPool2dWithIndices, OfFirst<MaxPool>}}};

}  // namespace

absl::Span<const DecompositionRow> PoolingRows() { return kRows; }

void DropUnusedIndices(Graph& g) {
  const auto pools = [](const Node& n) { return ir::Is(n.op, OpName::kMaxPool2dWithIndices); };
  if (std::none_of(g.nodes.begin(), g.nodes.end(), pools)) return;
  const std::vector<std::int32_t> uses = g.UseCounts();
  for (Node& n : g.nodes) {
    if (!pools(n) || n.outputs.size() < 2 || n.outputs[1] == kNoValue) continue;
    if (uses[static_cast<std::size_t>(n.outputs[1])] == 0) n.outputs[1] = kNoValue;
  }
}

}  // namespace framefuse::fusion
