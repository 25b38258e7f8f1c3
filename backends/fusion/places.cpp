#include "backends/fusion/places.h"

#include <ATen/ops/empty_strided.h>

#include <algorithm>

#include "backends/fusion/cat_form.h"
#include "backends/fusion/channels_last.h"
#include "backends/fusion/pad_products.h"
#include "backends/graph/operators.h"
#include "backends/graph/uses.h"

namespace framefuse::fusion {
namespace {

using ir::NodeIndex;
using ir::ValueId;

class CatStep final : public Step {
 public:
  CatStep(const ir::Graph& g, ValueId out, const CatForm& form)
      : whole_(out), sizes_(Numbers(g.value(out).sizes)), strides_(Numbers(g.value(out).strides)) {
    dtype_ = g.value(out).dtype;
    device_ = g.value(out).device;
    for (std::size_t i = 0; i < form.pieces.size(); ++i) {
      pieces_.push_back(form.pieces[i]);
      offsets_.push_back(form.bounds[i] * strides_[form.dim]);
    }
  }

  absl::Status Run(CallState& call) const override {
    at::Tensor& whole = call.slots[whole_];
    if (!whole.defined())
      whole = at::empty_strided(sizes_, strides_, at::TensorOptions().dtype(dtype_).device(device_));
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const at::Tensor& piece = call.slots[pieces_[i]];
      if (piece.is_alias_of(whole)) continue;
      whole.as_strided(piece.sizes(), strides_, offsets_[i]).copy_(piece);
    }
    return absl::OkStatus();
  }
  std::vector<ValueId> Reads() const override { return pieces_; }
  std::vector<PlanGroup> Explain() const override { return {{"in place: cat", "", 1, 0}}; }
  bool IsKernel() const override { return true; }

 private:
  ValueId whole_;
  std::vector<std::int64_t> sizes_, strides_, offsets_;
  std::vector<ValueId> pieces_;
  c10::ScalarType dtype_;
  c10::Device device_{c10::DeviceType::CPU};
};

// Zeros behind a tensor that a kernel wrote where it belongs, or that is copied there.
class PadStep final : public Step {
 public:
  PadStep(const ir::Graph& g, const ir::Node& n, std::vector<std::int64_t> behind)
      : whole_(n.outputs[0]),
        piece_(n.args[0].value),
        sizes_(Numbers(g.value(whole_).sizes)),
        strides_(Numbers(g.value(whole_).strides)),
        behind_(std::move(behind)),
        options_(at::TensorOptions().dtype(g.value(whole_).dtype).device(g.value(whole_).device)) {}

  absl::Status Run(CallState& call) const override {
    at::Tensor& whole = call.slots[whole_];
    if (!whole.defined()) whole = at::empty_strided(sizes_, strides_, options_);
    const at::Tensor& piece = call.slots[piece_];
    if (!piece.is_alias_of(whole)) whole.as_strided(piece.sizes(), strides_, 0).copy_(piece);
    for (std::size_t d = 0; d < behind_.size(); ++d) {
      if (behind_[d] > 0) whole.narrow(static_cast<std::int64_t>(d), sizes_[d] - behind_[d], behind_[d]).zero_();
    }
    return absl::OkStatus();
  }
  std::vector<ValueId> Reads() const override { return {piece_}; }
  std::vector<PlanGroup> Explain() const override { return {{"in place: pad", "", 1, 0}}; }
  bool IsKernel() const override { return true; }

 private:
  ValueId whole_, piece_;
  std::vector<std::int64_t> sizes_, strides_, behind_;
  at::TensorOptions options_;
};

bool MayBePlaced(const ir::Graph& g, const ir::Node& n) {
  return ir::Is(n.op, ir::OpName::kCat) || PadFormOf(g, n).has_value();
}

}  // namespace

Places PlacePieces(ir::Graph* graph, const Schedule& schedule) {
  ir::Graph& g = *graph;
  if (std::none_of(g.nodes.begin(), g.nodes.end(), [&](const ir::Node& n) { return MayBePlaced(g, n); })) return {};
  const std::vector<int> uses = ir::CountUses(g);
  const std::vector<NodeIndex> definitions = g.Definitions();
  const auto made_by_kernel = [&](ValueId v) {
    const NodeIndex by = definitions[static_cast<std::size_t>(v)];
    const int home = by == ir::kNoNode ? -1 : schedule.home[static_cast<std::size_t>(by)];
    if (home < 0) return false;
    const Group& group = schedule.groups[static_cast<std::size_t>(home)];
    // Of rows what is written element by element, not what they are reduced to.
    return group.kind == GroupKind::kPointwise || (group.kind == GroupKind::kRow && g.value(v).sizes == group.shape);
  };
  Places places;
  places.grown = FindGrowingCats(graph, schedule);
  for (const auto& [node, growth] : places.grown) places.joined.insert(node);
  const auto place = [&](ValueId piece, ValueId whole, std::int64_t offset) {
    if (uses[static_cast<std::size_t>(piece)] != 1 || !made_by_kernel(piece)) return false;
    g.value(piece).strides = g.value(whole).strides;
    places.of[piece] = {whole, offset};
    return true;
  };
  for (std::size_t i = 0; i < g.nodes.size(); ++i) {
    if (PadFormOf(g, g.nodes[i])) {
      place(g.nodes[i].args[0].value, g.nodes[i].outputs[0], 0);
      places.joined.insert(static_cast<NodeIndex>(i));
    }
    const std::optional<CatForm> form = CatFormOf(g, g.nodes[i]);
    if (!form || places.grown.contains(static_cast<NodeIndex>(i))) continue;
    const ValueId out = g.nodes[i].outputs[0];
    const std::vector<std::int64_t> offsets = OffsetsIn(g.value(out), *form);
    bool any = false;
    for (std::size_t p = 0; p < offsets.size(); ++p) {
      any = place(form->pieces[p], out, offsets[p]) || any;
    }
    // ATen's own lays its result out in one of these ways.
    const bool usual = ir::IsContiguous(g.exprs, g.value(out)) || IsChannelsLast(g.exprs, g.value(out));
    if (any || !usual) places.joined.insert(static_cast<NodeIndex>(i));
  }
  return places;
}

std::unique_ptr<Step> MakeJoinStep(const ir::Graph& graph, NodeIndex index, const Places& places) {
  const ir::Node& node = graph.nodes[static_cast<std::size_t>(index)];
  if (const auto it = places.grown.find(index); it != places.grown.end()) return MakeGrowStep(graph, node, it->second);
  if (auto behind = PadFormOf(graph, node)) return std::make_unique<PadStep>(graph, node, *std::move(behind));
  return std::make_unique<CatStep>(graph, node.outputs[0], *CatFormOf(graph, node));
}

}  // namespace framefuse::fusion
