#include "backends/fusion/growing_cats.h"

#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "backends/fusion/cat_form.h"
#include "backends/graph/operators.h"
#include "common/indexed_vector.h"

namespace framefuse::fusion {
namespace {

using ir::Graph;
using ir::NodeIndex;
using ir::ValueId;

constexpr std::size_t kLeastCats = 3;

class GrowStep final : public Step {
 public:
  GrowStep(const Graph& g, ValueId out, const CatForm& form, const Growth& growth)
      : out_(out),
        whole_(growth.whole),
        sizes_(Numbers(g.value(out).sizes)),
        whole_sizes_(Numbers(g.value(growth.whole).sizes)),
        strides_(Numbers(g.value(growth.whole).strides)),
        options_(at::TensorOptions().dtype(g.value(out).dtype).device(g.value(out).device)) {
    for (std::size_t i = growth.there; i < form.pieces.size(); ++i) {
      pieces_.push_back(form.pieces[i]);
      offsets_.push_back(form.bounds[i] * strides_[form.dim]);
    }
  }

  absl::Status Run(CallState& call) const override {
    at::Tensor& whole = call.slots[whole_];
    if (!whole.defined()) whole = at::empty_strided(whole_sizes_, strides_, options_);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const at::Tensor& piece = call.slots[pieces_[i]];
      whole.as_strided(piece.sizes(), strides_, offsets_[i]).copy_(piece);
    }
    if (out_ != whole_) call.slots[out_] = whole.as_strided(sizes_, strides_, 0);
    return absl::OkStatus();
  }
  std::vector<ValueId> Reads() const override { return pieces_; }
  std::vector<PlanGroup> Explain() const override { return {{"in place: growing cat", "", 1, 0}}; }
  bool IsKernel() const override { return true; }

 private:
  ValueId out_, whole_;
  std::vector<std::int64_t> sizes_, whole_sizes_, strides_, offsets_;
  std::vector<ValueId> pieces_;
  at::TensorOptions options_;
};

class Finder {
 public:
  Finder(Graph* graph, const Schedule& schedule) : g_(*graph), schedule_(schedule), uses_(graph->values.size()) {
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
      ir::ForEachUse(g_.nodes[i], [&](ValueId v) { uses_[v].push_back(static_cast<NodeIndex>(i)); });
    }
    for (const ir::Output& o : g_.outputs) {
      if (o.value != ir::kNoValue) outputs_.insert(o.value);
    }
  }

  std::map<NodeIndex, Growth> Run() {
    for (const ScheduleItem& item : schedule_.items) {
      if (item.group < 0 && item.nodes.size() == 1) Take(item.nodes[0]);
    }
    std::map<NodeIndex, Growth> growths;
    for (const Chain& chain : chains_) Grow(chain, &growths);
    return growths;
  }

 private:
  struct Cat {
    NodeIndex node;
    CatForm form;
  };
  using Chain = std::vector<Cat>;

  // Behind the chain whose last concatenation it continues furthest.
  void Take(NodeIndex n) {
    constexpr auto kAny = std::numeric_limits<std::size_t>::max();
    std::optional<CatForm> form = CatFormOf(g_, g_.nodes[static_cast<std::size_t>(n)], kAny);
    if (!form) return;
    Chain* best = nullptr;
    for (Chain& chain : chains_) {
      if (Continues(chain.back().form, *form) &&
          (best == nullptr || best->back().form.pieces.size() < chain.back().form.pieces.size())) {
        best = &chain;
      }
    }
    if (best == nullptr) best = &chains_.emplace_back();
    best->push_back({n, *std::move(form)});
  }

  static bool Continues(const CatForm& shorter, const CatForm& longer) {
    return shorter.dim == longer.dim && shorter.pieces.size() < longer.pieces.size() &&
           std::equal(shorter.pieces.begin(), shorter.pieces.end(), longer.pieces.begin());
  }

  void Grow(const Chain& chain, std::map<NodeIndex, Growth>* growths) {
    const ValueId whole = OutOf(chain.back());
    if (OffsetsIn(g_.value(whole), chain.back().form).empty()) return;
    std::vector<const Cat*> cats;
    for (const Cat& cat : chain) {
      if (&cat == &chain.back() || IsReadByKernelsOnly(OutOf(cat))) cats.push_back(&cat);
    }
    if (cats.size() < kLeastCats) return;
    std::size_t there = 0;
    for (const Cat* cat : cats) {
      (*growths)[cat->node] = {whole, there};
      there = cat->form.pieces.size();
      g_.value(OutOf(*cat)).strides = g_.value(whole).strides;
    }
  }

  ValueId OutOf(const Cat& cat) const { return g_.nodes[static_cast<std::size_t>(cat.node)].outputs[0]; }

  bool IsReadByKernelsOnly(ValueId v) const {
    const std::vector<NodeIndex>& users = uses_[v];
    return !outputs_.contains(v) && std::all_of(users.begin(), users.end(), [&](NodeIndex n) {
      return schedule_.home[static_cast<std::size_t>(n)] >= 0;
    });
  }

  Graph& g_;
  const Schedule& schedule_;
  IndexedVector<ValueId, std::vector<NodeIndex>> uses_;
  std::set<ValueId> outputs_;
  std::vector<Chain> chains_;
};

}  // namespace

std::map<NodeIndex, Growth> FindGrowingCats(Graph* graph, const Schedule& schedule) {
  const auto is_cat = [](const ir::Node& n) { return ir::Is(n.op, ir::OpName::kCat); };
  if (std::count_if(graph->nodes.begin(), graph->nodes.end(), is_cat) < static_cast<std::ptrdiff_t>(kLeastCats)) {
    return {};
  }
  return Finder(graph, schedule).Run();
}

std::unique_ptr<Step> MakeGrowStep(const Graph& graph, const ir::Node& node, const Growth& growth) {
  constexpr auto kAny = std::numeric_limits<std::size_t>::max();
  return std::make_unique<GrowStep>(graph, node.outputs[0], *CatFormOf(graph, node, kAny), growth);
}

}  // namespace framefuse::fusion
