#include "backends/fusion/places.h"

#include <ATen/ops/empty_strided.h>

#include <algorithm>

#include "backends/fusion/cat_form.h"

namespace framefuse::fusion {
namespace {

using ir::NodeIndex;
using ir::ValueId;

std::vector<std::int64_t> Numbers(const std::vector<ir::Dim>& dims) {
  std::vector<std::int64_t> out;
  for (const ir::Dim& d : dims) out.push_back(d.constant());
  return out;
}

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
    at::Tensor& whole = call.slots[static_cast<std::size_t>(whole_)];
    if (!whole.defined())
      whole = at::empty_strided(sizes_, strides_, at::TensorOptions().dtype(dtype_).device(device_));
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const at::Tensor& piece = call.slots[static_cast<std::size_t>(pieces_[i])];
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

}  // namespace

Places PlacePieces(ir::Graph* graph, const Schedule& schedule) {
  ir::Graph& g = *graph;
  const auto is_cat = [&](const ir::Node& n) { return CatFormOf(g, n).has_value(); };
  if (std::none_of(g.nodes.begin(), g.nodes.end(), is_cat)) return {};
  std::vector<int> uses(g.values.size(), 0);
  for (const ir::Node& n : g.nodes) {
    ir::ForEachUse(n, [&](ValueId v) { ++uses[static_cast<std::size_t>(v)]; });
  }
  for (const ir::Output& o : g.outputs) {
    if (o.value != ir::kNoValue) ++uses[static_cast<std::size_t>(o.value)];
  }
  const std::vector<NodeIndex> definitions = g.Definitions();
  const auto made_by_kernel = [&](ValueId v) {
    const NodeIndex by = definitions[static_cast<std::size_t>(v)];
    const int home = by == ir::kNoNode ? -1 : schedule.home[static_cast<std::size_t>(by)];
    return home >= 0 && schedule.groups[static_cast<std::size_t>(home)].kind == GroupKind::kPointwise;
  };
  Places places;
  for (std::size_t i = 0; i < g.nodes.size(); ++i) {
    const std::optional<CatForm> form = CatFormOf(g, g.nodes[i]);
    if (!form) continue;
    const ValueId out = g.nodes[i].outputs[0];
    const std::vector<std::int64_t> offsets = OffsetsIn(g.value(out), *form);
    bool any = false;
    for (std::size_t p = 0; p < offsets.size(); ++p) {
      const ValueId piece = form->pieces[p];
      if (uses[static_cast<std::size_t>(piece)] != 1 || !made_by_kernel(piece)) continue;
      g.value(piece).strides = g.value(out).strides;
      places.of[piece] = {out, offsets[p]};
      any = true;
    }
    // ATen's own makes contiguous results.
    if (any || !ir::IsContiguous(g.exprs, g.value(out))) places.joined.insert(static_cast<NodeIndex>(i));
  }
  return places;
}

std::unique_ptr<Step> MakeCatStep(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<CatStep>(graph, node.outputs[0], *CatFormOf(graph, node));
}

}  // namespace framefuse::fusion
