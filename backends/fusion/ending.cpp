#include "backends/fusion/ending.h"

#include <algorithm>
#include <set>

#include "backends/fusion/node_kinds.h"
#include "backends/passes/aliases.h"
#include "common/index.h"

namespace framefuse::fusion {
namespace {

using ir::kNoValue;
using ir::ValueId;

constexpr std::int64_t kLarge = 256 << 10;  // bytes; a launch costs as much as a copy of less
constexpr std::size_t kMostMakers = 4;      // steps that are launched one by one

class Finder {
 public:
  Finder(const ir::Graph& graph, const std::vector<std::unique_ptr<Step>>& steps, const std::vector<bool>& apart,
         const std::vector<std::int64_t>& exprs)
      : g_(graph), steps_(steps), exprs_(exprs), aliases_(graph) {
    for (std::size_t i = 0; i < g_.outputs.size(); ++i) {
      const ValueId v = g_.outputs[i].value;
      if (v == kNoValue) continue;
      results_.insert(aliases_.RootOf(v));
      if (!apart[i]) recorded_.insert(aliases_.RootOf(v));
    }
  }

  EndingPlan Find() {
    std::size_t first = steps_.size();
    for (std::size_t makers = 0; first > 0 && makers < kMostMakers; --first) {
      const std::size_t before = made_.size();
      if (!Takes(*steps_[first - 1])) break;
      makers += made_.size() > before ? 1 : 0;
    }
    while (first < steps_.size() && !Makes(*steps_[first])) ++first;
    EndingPlan plan{first, {}, {}};
    if (IsAllOfIt(first) || !Hold(&plan)) return {steps_.size(), {}, {}};
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

  bool Takes(const Step& step) {
    std::vector<ValueId> values;
    if (!Computes(step, &values)) return false;
    const bool all = std::all_of(values.begin(), values.end(), [&](ValueId v) {
      return aliases_.RootOf(v) == v && results_.contains(v) && !recorded_.contains(v) && BytesOf(v) >= kLarge;
    });
    if (all) made_.insert(values.begin(), values.end());
    return all;
  }
  bool Makes(const Step& step) const {
    std::vector<ValueId> values;
    return Computes(step, &values) && !values.empty();
  }
  // Nothing would be recorded, of which torch warns.
  bool IsAllOfIt(std::size_t first) const {
    return first < steps_.size() &&
           std::all_of(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(first), [&](const auto& step) {
             std::vector<ValueId> values;
             return Computes(*step, &values) && values.empty();
           });
  }

  std::int64_t BytesOf(ValueId v) const {
    const ir::Value& value = g_.value(v);
    auto bytes = static_cast<std::int64_t>(c10::elementSize(value.dtype));
    for (const ir::Dim& d : value.sizes) bytes *= d.is_constant() ? d.constant() : exprs_[At(d.expr)];
    return bytes;
  }

  // False: it reads a view of an input, which nobody may hold, or makes a view of what others make.
  bool Hold(EndingPlan* plan) const {
    std::set<ValueId> own, held, given;
    for (const ir::Input& i : g_.inputs) given.insert(i.value);
    for (const ir::ConstantTensor& c : g_.constants) given.insert(c.value);
    for (std::size_t s = plan->first; s < steps_.size(); ++s) {
      for (const ValueId v : steps_[s]->Results()) own.insert(v);
      for (const ir::NodeIndex n : steps_[s]->Operators()) {
        for (const ValueId v : g_.nodes[At(n)].outputs) {
          if (v == kNoValue) continue;
          own.insert(v);
          if (aliases_.IsOutput(v) && !made_.contains(aliases_.RootOf(v))) return false;
        }
      }
    }
    for (std::size_t s = plan->first; s < steps_.size(); ++s) {
      for (const ValueId v : steps_[s]->Reads()) {
        if (own.contains(v) || given.contains(v)) continue;
        if (aliases_.FromInput(v)) return false;
        held.insert(v);
      }
    }
    plan->held.assign(held.begin(), held.end());
    return true;
  }

  const ir::Graph& g_;
  const std::vector<std::unique_ptr<Step>>& steps_;
  const std::vector<std::int64_t>& exprs_;
  const Aliases aliases_;
  std::set<ValueId> results_, recorded_;  // memory of outputs; of such as stay in a recording
  std::set<ValueId> made_;                // by the ending
};

}  // namespace

EndingPlan PlanEnding(const ir::Graph& graph, const std::vector<std::unique_ptr<Step>>& steps,
                      const std::vector<bool>& apart, const std::vector<std::int64_t>& exprs) {
  return Finder(graph, steps, apart, exprs).Find();
}

}  // namespace framefuse::fusion
