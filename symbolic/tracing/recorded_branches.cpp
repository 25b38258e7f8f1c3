#include "symbolic/tracing/recorded_branches.h"

#include <iterator>
#include <utility>

#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

void RecordedBranches::Open(const ir::Graph& graph) {
  open_.emplace_back();
  open_.back().first_node = graph.nodes.size();
}

OpenBranch RecordedBranches::Close(ir::Graph& graph, std::vector<ir::Node>* nodes) {
  OpenBranch branch = std::move(open_.back());
  open_.pop_back();
  std::vector<ir::Node>& all = graph.nodes;
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(branch.first_node);
  for (auto n = first; n != all.end(); ++n) {
    for (const ir::ValueId v : n->outputs) {
      if (v != ir::kNoValue) left_graph_.insert(v);
    }
  }
  nodes->insert(nodes->end(), std::make_move_iterator(first), std::make_move_iterator(all.end()));
  all.erase(first, all.end());
  return branch;
}

void RecordedBranches::NoteRead(Recorder& recorder, const at::Tensor& t, ir::ValueId value, const OpTraits& traits) {
  if (open_.empty()) {
    if (left_graph_.contains(value)) {
      recorder.Break(BreakKind::kHiddenState, traits, "a tensor made in a branch of cond is used outside of it");
    }
    return;
  }
  for (at::Tensor& known : open_.back().read) {
    if (AsFake(known)->value() != value) continue;
    if (!known.requires_grad()) known = t;
    return;
  }
  open_.back().read.push_back(t);
}

RecordedBranch RecordedBranches::Take() {
  RecordedBranch branch = std::move(recorded_.back());
  recorded_.pop_back();
  return branch;
}

void RecordedBranches::RestoreHistories() {
  cut_histories_.back()();
  cut_histories_.pop_back();
}

}  // namespace framefuse::tracing
