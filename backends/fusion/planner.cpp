#include "backends/fusion/planner.h"

#include <algorithm>
#include <utility>

#include "backends/cuda_runtime/engine.h"
#include "backends/fusion/move_to_front.h"
#include "backends/fusion/sinks.h"
#include "backends/fusion/why_not.h"
#include "backends/graph/collectives.h"
#include "backends/passes/aliases.h"
#include "common/logging.h"
#include "common/status.h"

namespace framefuse::fusion {

using ir::kNoValue;
using ir::NodeIndex;
using ir::ValueId;

Planner::Planner(ir::Graph* graph, const BackendOptions& options)
    : g_(*graph),
      options_(options),
      schedule_(MakeSchedule(*graph)),
      places_(PlacePieces(graph, schedule_)),
      definitions_(graph->Definitions()) {
  for (const ir::Output& o : g_.outputs) {
    if (o.value != kNoValue) outputs_.insert(o.value);
  }
  // A recording gives all results at once.
  MoveSmallToFront(g_, /*early=*/options_.mode != "reduce-overhead", &schedule_);
  items_of_user_.resize(g_.values.size());
  for (std::size_t i = 0; i < schedule_.items.size(); ++i) {
    for (NodeIndex n : schedule_.items[i].nodes) {
      ir::ForEachUse(g_.nodes[static_cast<std::size_t>(n)],
                     [&](ValueId v) { items_of_user_[static_cast<std::size_t>(v)].insert(i); });
    }
  }
  if (options_.mode == "reduce-overhead") FindSinks();
}

bool Planner::IsLooseView(std::size_t item) const {
  const ScheduleItem& it = schedule_.items[item];
  return it.group < 0 && it.nodes.size() == 1 && !places_.joined.contains(it.nodes[0]) &&
         ViewedArgument(*g_.nodes[static_cast<std::size_t>(it.nodes[0])].op) == 0;
}

void Planner::FindSinks() {
  std::map<NodeIndex, std::size_t> loose;  // views: items
  for (std::size_t i = 0; i < schedule_.items.size(); ++i) {
    if (IsLooseView(i)) loose[schedule_.items[i].nodes[0]] = i;
  }
  const auto users = [&](ValueId v) -> std::set<std::size_t>& { return items_of_user_[static_cast<std::size_t>(v)]; };
  const Sinks sinks(g_);
  for (std::size_t i = 0; i < schedule_.items.size(); ++i) {
    const ScheduleItem& item = schedule_.items[i];
    if (item.group >= 0 || item.nodes.size() != 1 || !sinks.views().contains(item.nodes[0])) continue;
    const std::vector<NodeIndex>& views = sinks.views().at(item.nodes[0]);
    if (!std::all_of(views.begin(), views.end(), [&](NodeIndex n) { return loose.contains(n); })) continue;
    std::set<NodeIndex> nodes;
    const auto add = [&](const auto& self, NodeIndex n) -> void {
      if (!nodes.insert(n).second) return;
      ir::ForEachUse(g_.nodes[static_cast<std::size_t>(n)], [&](ValueId v) {
        users(v).insert(i);
        const auto view = loose.find(definitions_[static_cast<std::size_t>(v)]);
        if (view == loose.end()) return;
        users(v).erase(i);
        self(self, view->first);
      });
    };
    add(add, item.nodes[0]);
    Sink& sink = sinks_[i];
    sink.items.insert(i);
    for (NodeIndex n : views) {
      nodes.insert(n);
      sink.items.insert(loose.at(n));
      elsewhere_.insert(loose.at(n));
    }
    sink.nodes.assign(nodes.begin(), nodes.end());
  }
  for (std::size_t i = schedule_.items.size(); i-- > 0;) {
    if (!IsLooseView(i) || elsewhere_.contains(i)) continue;
    const ir::Node& n = g_.nodes[static_cast<std::size_t>(schedule_.items[i].nodes[0])];
    if (outputs_.contains(n.outputs[0]) || !users(n.outputs[0]).empty()) continue;
    elsewhere_.insert(i);
    ir::ForEachUse(n, [&](ValueId v) { users(v).erase(i); });
  }
}

bool Planner::complete() const {
  std::size_t nodes = 0;
  for (const ScheduleItem& item : schedule_.items) {
    for (NodeIndex n : item.nodes) nodes += item.group < 0 || schedule_.home[static_cast<std::size_t>(n)] == item.group;
  }
  return nodes == g_.nodes.size();
}

absl::StatusOr<std::vector<std::unique_ptr<Step>>> Planner::Plan() {
  std::vector<std::unique_ptr<Step>> steps;
  if (LogEnabled(LogArtifact::kFusion)) {
    if (const std::string why = WhyNot(g_, schedule_); !why.empty()) FF_LOG(kFusion) << "not in one kernel:" << why;
  }
  for (std::size_t i = 0; i < schedule_.items.size(); ++i) {
    const ScheduleItem& item = schedule_.items[i];
    if (item.group < 0 && places_.joined.contains(item.nodes[0])) {
      FF_RETURN_IF_ERROR(Flush(&steps));
      steps.push_back(MakeJoinStep(g_, item.nodes[0], places_));
      FF_LOG(kFusion) << steps.back()->Explain()[0].description;
      continue;
    }
    if (elsewhere_.contains(i)) continue;
    if (item.group < 0) {
      // A collective may write over what it is given: its argument has to be a value between steps.
      const bool speaks = ir::SpeaksToOthers(g_.nodes[static_cast<std::size_t>(item.nodes[0])]);
      if (speaks) FF_RETURN_IF_ERROR(Flush(&steps));
      loose_.push_back(i);
      if (speaks) FF_RETURN_IF_ERROR(Flush(&steps));
      continue;
    }
    const Group& group = schedule_.groups[static_cast<std::size_t>(item.group)];
    auto step = MakeGroupStep(group, MadeFor({i}));
    if (!step.ok()) {
      FF_LOG(kFusion) << "not fused: " << Describe(g_, group) << ": " << MessageOf(step.status());
      FF_RETURN_IF_ERROR(Flush(&steps));
      // A group may hold clones of others' nodes: it stays one step of its own.
      loose_.push_back(i);
      FF_RETURN_IF_ERROR(Flush(&steps));
      continue;
    }
    FF_RETURN_IF_ERROR(Flush(&steps));
    FF_LOG(kFusion) << Describe(g_, group);
    steps.push_back(*std::move(step));
  }
  FF_RETURN_IF_ERROR(Flush(&steps));
  MergeHorizontally(&steps);
  CompileCudaSteps(&steps);
  return steps;
}

absl::StatusOr<std::unique_ptr<Step>> Planner::MakeGroupStep(const Group& group, const std::vector<ValueId>& results) {
  std::vector<bool> needed(g_.values.size(), false);
  for (ValueId v : results) needed[static_cast<std::size_t>(v)] = true;
  const c10::Device device = g_.value(g_.nodes[static_cast<std::size_t>(group.nodes[0])].outputs[0]).device;
  const absl::Status cuda = cuda::TheEngine().Serves(device);
  if (!cuda.ok() && !device.is_cpu()) return cuda;
  auto lowered = Lower(g_, group, needed, cuda.ok() ? kCudaSplits : kCpuSplits);
  if (!lowered.ok()) return lowered.status();
  for (ValueId v : lowered->outputs) {
    if (const auto place = places_.of.find(v); place != places_.of.end()) lowered->places.emplace_back(*place);
  }
  if (!cuda.ok() && lowered->checks.empty()) return MakeCpuStep(g_, group, *std::move(lowered), nullptr);
  auto fallback = MakeAtenStep(g_, group.nodes, results);
  if (!fallback.ok()) return fallback.status();
  if (!cuda.ok()) return MakeCpuStep(g_, group, *std::move(lowered), *std::move(fallback));
  return MakeCudaStep(g_, group, *std::move(lowered), *std::move(fallback));
}

std::vector<ValueId> Planner::MadeFor(const std::set<std::size_t>& items) const {
  std::vector<ValueId> out;
  for (const std::size_t i : items) {
    const ScheduleItem& item = schedule_.items[i];
    for (NodeIndex n : item.nodes) {
      if (item.group >= 0 && schedule_.home[static_cast<std::size_t>(n)] != item.group) continue;
      for (ValueId v : g_.nodes[static_cast<std::size_t>(n)].outputs) {
        if (v != kNoValue && IsReadOutside(items, n, v)) out.push_back(v);
      }
    }
  }
  return out;
}

bool Planner::IsReadOutside(const std::set<std::size_t>& items, NodeIndex maker, ValueId v) const {
  if (outputs_.contains(v)) return true;
  const std::set<std::size_t>& users = items_of_user_[static_cast<std::size_t>(v)];
  return std::any_of(users.begin(), users.end(), [&](std::size_t user) {
    const std::vector<NodeIndex>& nodes = schedule_.items[user].nodes;
    return !items.contains(user) && !std::binary_search(nodes.begin(), nodes.end(), maker);
  });
}

absl::Status Planner::Flush(std::vector<std::unique_ptr<Step>>* steps) {
  std::vector<NodeIndex> nodes;
  std::set<std::size_t> items;
  for (std::size_t i : loose_) {
    if (sinks_.contains(i)) continue;
    items.insert(i);
    nodes.insert(nodes.end(), schedule_.items[i].nodes.begin(), schedule_.items[i].nodes.end());
  }
  if (!items.empty()) FF_RETURN_IF_ERROR(AddAtenStep(nodes, items, steps));
  for (std::size_t i : std::exchange(loose_, {})) {
    if (const auto sink = sinks_.find(i); sink != sinks_.end()) {
      FF_RETURN_IF_ERROR(AddAtenStep(sink->second.nodes, sink->second.items, steps));
    }
  }
  return absl::OkStatus();
}

absl::Status Planner::AddAtenStep(const std::vector<NodeIndex>& nodes, const std::set<std::size_t>& items,
                                  std::vector<std::unique_ptr<Step>>* steps) {
  FF_LOG(kFusion) << "ATen: " << OperatorNames(nodes);
  auto step = MakeAtenStep(g_, nodes, MadeFor(items));
  if (!step.ok()) return step.status();
  steps->push_back(*std::move(step));
  return absl::OkStatus();
}

std::string Planner::OperatorNames(const std::vector<NodeIndex>& nodes) const {
  std::string names;
  for (NodeIndex n : nodes) {
    const std::string& name = g_.nodes[static_cast<std::size_t>(n)].op->name();
    names += (names.empty() ? "" : ", ") + name.substr(name.find('.') + 1);
  }
  return names;
}

}  // namespace framefuse::fusion
