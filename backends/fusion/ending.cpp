#include "backends/fusion/ending.h"

#include <algorithm>
#include <set>

#include "backends/fusion/node_kinds.h"
#include "backends/fusion/sharing.h"
#include "backends/passes/aliases.h"
#include "common/index.h"

namespace framefuse::fusion {
namespace {

using ir::kNoValue;
using ir::ValueId;

constexpr std::int64_t kLarge = 256 << 10;  // bytes; a launch costs as much as a copy of less
// The host launches them one by one while the device replays the others, each of which takes longer than a launch does.
constexpr std::size_t kMostMakers = 4, kStepsAMaker = 4;
constexpr std::int64_t kMostHeld = 2;  // bytes for each byte of a result that is not copied

class Finder {
 public:
  Finder(const ir::Graph& graph, const std::vector<std::unique_ptr<Step>>& steps, const std::vector<bool>& apart,
         const std::vector<std::int64_t>& exprs)
      : g_(graph), steps_(steps), exprs_(exprs), aliases_(graph), readers_(graph.values.size()) {
    for (std::size_t i = 0; i < g_.outputs.size(); ++i) {
      const ValueId v = g_.outputs[i].value;
      if (v == kNoValue) continue;
      results_.insert(aliases_.RootOf(v));
      if (!apart[i]) recorded_.insert(aliases_.RootOf(v));
    }
    for (const ir::Input& i : g_.inputs) given_.insert(i.value);
    for (const ir::ConstantTensor& c : g_.constants) given_.insert(c.value);
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      for (const ValueId v : steps_[s]->Reads()) readers_[At(v)].push_back(s);
    }
    int begun = 0;
    for (const auto& step : steps_) {
      for (const ir::NodeIndex n : step->Operators()) {
        const ir::Node& node = g_.nodes[At(n)];
        begun += ir::WaitsForOthers(node) ? -1 : ir::SpeaksToOthers(node) ? 1 : 0;
      }
      hides_.push_back(begun > 0);
    }
  }

  EndingPlan Find() {
    EndingPlan plan;
    do {
      Choose();
      plan = {chosen_, {}, {}, {}};
    } while (!Hold(&plan));
    if (made_.empty() || IsAllOfIt()) return {};
    for (std::size_t i = 0; i < g_.outputs.size(); ++i) {
      const ValueId v = g_.outputs[i].value;
      if (v != kNoValue && made_.contains(aliases_.RootOf(v))) plan.outputs.push_back(i);
    }
    return plan;
  }

 private:
  // The values that a step computes; views share memory.
  bool Computes(const Step& step, std::vector<ValueId>* values) const {
    if (step.IsKernel()) {
      *values = step.Results();
      return true;
    }
    for (const ir::NodeIndex n : step.Operators()) {
      const ir::Node& node = g_.nodes[At(n)];
      const bool views = ViewedArgument(*node.op) >= 0;
      if (!views && !IsProduct(node)) return false;
      for (const ValueId v : node.outputs) {
        if (v != kNoValue && !views) values->push_back(v);
      }
    }
    return !step.Operators().empty();
  }
  std::vector<ValueId> Makes(const Step& step) const {
    std::vector<ValueId> values = step.Results();
    for (const ir::NodeIndex n : step.Operators()) {
      const std::vector<ValueId>& outputs = g_.nodes[At(n)].outputs;
      std::copy_if(outputs.begin(), outputs.end(), std::back_inserter(values), [](ValueId v) { return v != kNoValue; });
    }
    return values;
  }

  // From the last step on: those before a chosen one may then be chosen, too.
  void Choose() {
    chosen_.assign(steps_.size(), false);
    made_.clear();
    held_.clear();
    const std::size_t most = std::max(kMostMakers, steps_.size() / kStepsAMaker);
    std::size_t makers = 0;
    bool last = true;  // nothing is recorded behind it
    for (std::size_t s = steps_.size(); s-- > 0;) {
      const std::size_t before = made_.size();
      chosen_[s] = makers < most && !refused_.contains(s) && Takes(s, last);
      makers += made_.size() > before ? 1 : 0;
      last = last && chosen_[s];
    }
  }

  bool Takes(std::size_t s, bool last) {
    std::vector<ValueId> values;
    if (hides_[s] || !Computes(*steps_[s], &values)) return false;
    bool any = !values.empty();
    for (const ValueId v : Makes(*steps_[s])) {
      const std::vector<std::size_t>& readers = readers_[At(v)];
      if (!std::all_of(readers.begin(), readers.end(), [&](std::size_t r) { return chosen_[r]; })) return false;
      any = any || !readers.empty() || (aliases_.IsOutput(v) && IsLargeResult(aliases_.RootOf(v)));
    }
    std::int64_t bytes = 0;
    for (const ValueId v : values) {
      if (aliases_.RootOf(v) != v || !IsLargeResult(v)) return false;
      bytes += BytesOf(v);
    }
    std::set<ValueId> held = HeldBy(*steps_[s]);
    std::int64_t more = 0;
    for (const ValueId v : held) more += BytesOf(v);
    if (!any || (!last && more > kMostHeld * bytes)) return false;
    held_.merge(held);
    made_.insert(values.begin(), values.end());
    return true;
  }

  bool IsLargeResult(ValueId root) const {
    return results_.contains(root) && !recorded_.contains(root) && BytesOf(root) >= kLarge;
  }

  // Memory that only stays because this step reads it.
  std::set<ValueId> HeldBy(const Step& step) const {
    std::set<ValueId> held;
    for (const ValueId v : step.Reads()) {
      const ValueId root = aliases_.RootOf(v);
      if (!given_.contains(root) && !results_.contains(root) && !held_.contains(root)) held.insert(root);
    }
    return held;
  }

  // Nothing would be recorded, of which torch warns.
  bool IsAllOfIt() const {
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      std::vector<ValueId> values;
      if (!chosen_[s] && (!Computes(*steps_[s], &values) || !values.empty())) return false;
    }
    return true;
  }

  std::int64_t BytesOf(ValueId v) const {
    const ir::Value& value = g_.value(v);
    auto bytes = static_cast<std::int64_t>(c10::elementSize(value.dtype));
    for (const ir::Dim& d : value.sizes) bytes *= d.is_constant() ? d.constant() : exprs_[At(d.expr)];
    return bytes;
  }

  // False: steps read a view of an input, which nobody may hold, or make a view of what others make; they are refused.
  bool Hold(EndingPlan* plan) {
    std::set<ValueId> own, held;
    const std::size_t refused = refused_.size();
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      if (!chosen_[s]) continue;
      for (const ValueId v : Makes(*steps_[s])) {
        if (aliases_.IsOutput(v) && !made_.contains(aliases_.RootOf(v))) refused_.insert(s);
        own.insert(v);
      }
      for (const ValueId v : steps_[s]->Reads()) {
        if (own.contains(v) || given_.contains(v)) continue;
        if (aliases_.FromInput(v)) refused_.insert(s);
        held.insert(v);
      }
    }
    if (refused_.size() > refused) return false;
    plan->held.assign(held.begin(), held.end());
    const Sharing sharing(g_);
    std::set<ValueId> roots;
    for (const ValueId v : held) roots.insert(sharing.RootOf(v));
    for (std::size_t v = 0; v < g_.values.size(); ++v) {
      plan->kept.push_back(roots.contains(sharing.RootOf(static_cast<ValueId>(v))));
    }
    return true;
  }

  const ir::Graph& g_;
  const std::vector<std::unique_ptr<Step>>& steps_;
  const std::vector<std::int64_t>& exprs_;
  const Aliases aliases_;
  std::vector<std::vector<std::size_t>> readers_;  // by value: steps
  std::vector<bool> hides_;                        // by step: it runs while others speak to other processes
  std::set<ValueId> results_, recorded_;           // memory of outputs; of such as stay in a recording
  std::set<ValueId> given_;                        // inputs, constants
  std::set<std::size_t> refused_;                  // steps that can't be of the ending
  std::vector<bool> chosen_;                       // by step
  std::set<ValueId> made_, held_;                  // memory: made by the chosen; kept for them
};

}  // namespace

EndingPlan PlanEnding(const ir::Graph& graph, const std::vector<std::unique_ptr<Step>>& steps,
                      const std::vector<bool>& apart, const std::vector<std::int64_t>& exprs) {
  return Finder(graph, steps, apart, exprs).Find();
}

}  // namespace framefuse::fusion
