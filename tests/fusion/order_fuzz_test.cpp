// Random graphs in which processes speak to each other, and the order of their steps: each reads what is made before
// it, all that is asked for is made, and nothing that could run first stands between a wait and what needs it.
// FF_FUZZ_GRAPHS: how many (default 400), FF_FUZZ_SEED: of the first one. A failure prints its seed and graph.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "backends/fusion/planner.h"
#include "backends/graph/collectives.h"
#include "common/index.h"
#include "common/status.h"
#include "tests/common/fuzz_setting.h"

namespace framefuse {
namespace {

using Steps = std::vector<std::unique_ptr<fusion::Step>>;

class Speaking {
 public:
  explicit Speaking(unsigned seed) : random_(seed) {}

  std::string Run() {
    text_ = "graph \"fuzz\" functional\n";
    for (int i = 0; i < 3; ++i) text_ += Next() + ": f32[8, 8] argument\n";
    text_.replace(text_.find("%0"), 2, "input %0").replace(text_.find("\n%1") + 1, 2, "input %1");
    text_.replace(text_.find("\n%2") + 1, 2, "input %2");
    const std::size_t nodes = 4 + Pick(12);
    for (std::size_t n = 0; n < nodes; ++n) Node();
    for (std::size_t i = 3; i < values_.size(); ++i) {  // no node is dead
      if (!read_.contains(values_[i]) || Pick(6) == 0) text_ += "output %" + std::to_string(values_[i]) + " user\n";
    }
    return text_;
  }

 private:
  std::size_t Pick(std::size_t n) { return random_() % n; }
  std::string Next() {
    values_.push_back(next_);
    return "%" + std::to_string(next_++);
  }

  void Node() {
    const int first = values_[Pick(values_.size())], second = values_[Pick(values_.size())];
    const std::string a = "%" + std::to_string(first), b = "%" + std::to_string(second);
    read_.insert(first);
    switch (Pick(4)) {
      case 0: {
        const std::string sent = "%" + std::to_string(next_++), storage = "{storage=" + std::to_string(next_) + "}";
        text_ += sent + ": f32[8, 8]" + storage + " = _c10d_functional.all_reduce(" + a + ", \"sum\", \"0\")\n";
        text_ += Next() + ": f32[8, 8]" + storage + " = _c10d_functional.wait_tensor(" + sent + ")\n";
        return;
      }
      case 1:
        read_.insert(second);
        text_ += Next() + ": f32[8, 8] = aten.mm(" + a + ", " + b + ")\n";
        return;
      case 2:
        read_.insert(second);
        text_ += Next() + ": f32[8, 8] = aten.mul.Tensor(" + a + ", " + b + ")\n";
        return;
      default:
        text_ += Next() + ": f32[8, 8] = aten.sin(" + a + ")\n";
        return;
    }
  }

  std::mt19937 random_;
  std::string text_;
  std::vector<int> values_;
  std::set<int> read_;
  int next_ = 0;
};

std::vector<ir::ValueId> MadeBy(const ir::Graph& graph, const fusion::Step& step) {
  std::vector<ir::ValueId> made = step.Results();
  for (const ir::NodeIndex n : step.Operators()) {
    for (const ir::ValueId v : graph.nodes[At(n)].outputs) made.push_back(v);
  }
  return made;
}

bool Waits(const ir::Graph& graph, const fusion::Step& step) {
  const absl::Span<const ir::NodeIndex> nodes = step.Operators();
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](ir::NodeIndex n) { return ir::WaitsForOthers(graph.nodes[At(n)]); });
}

// Whether something needs it that others need, in turn: what only makes results may itself come late.
bool IsNeeded(const ir::Graph& graph, const std::set<ir::ValueId>& waited) {
  std::set<ir::ValueId> read;
  for (const ir::Node& n : graph.nodes) ir::ForEachUse(n, [&](ir::ValueId v) { read.insert(v); });
  return std::none_of(graph.nodes.begin(), graph.nodes.end(), [&](const ir::Node& n) {
    bool reads = false;
    ir::ForEachUse(n, [&](ir::ValueId v) { reads = reads || waited.contains(v); });
    return reads && !read.contains(n.outputs[0]);
  });
}

// Behind a wait comes what needs it, or another wait.
std::string WhatStandsBehindAWait(const ir::Graph& graph, const Steps& steps, std::size_t wait) {
  const std::vector<ir::ValueId> made = MadeBy(graph, *steps[wait]);
  const std::set<ir::ValueId> waited(made.begin(), made.end());
  if (!IsNeeded(graph, waited)) return "";
  for (std::size_t s = wait + 1; s < steps.size(); ++s) {
    const std::vector<ir::ValueId> reads = steps[s]->Reads();
    if (std::any_of(reads.begin(), reads.end(), [&](ir::ValueId v) { return waited.contains(v); })) return "";
    if (!Waits(graph, *steps[s]))
      return "step " + std::to_string(s) + " could have run before the wait " + std::to_string(wait);
  }
  return "";
}

std::string Check(ir::Graph* graph) {
  const BackendOptions options;
  fusion::Planner planner(graph, options);
  const absl::StatusOr<Steps> steps = planner.Plan();
  if (!steps.ok()) return MessageOf(steps.status());
  std::set<ir::ValueId> there;
  for (const ir::Input& i : graph->inputs) there.insert(i.value);
  for (const ir::ConstantTensor& c : graph->constants) there.insert(c.value);
  for (std::size_t s = 0; s < steps->size(); ++s) {
    for (const ir::ValueId v : (*steps)[s]->Reads()) {
      if (!there.contains(v)) return "step " + std::to_string(s) + " reads what is not there: " + std::to_string(v);
    }
    const std::vector<ir::ValueId> made = MadeBy(*graph, *(*steps)[s]);
    there.insert(made.begin(), made.end());
    if (!Waits(*graph, *(*steps)[s])) continue;
    std::string why = WhatStandsBehindAWait(*graph, *steps, s);
    if (!why.empty()) return why;
  }
  for (const ir::Output& o : graph->outputs) {
    if (!there.contains(o.value)) return "nobody makes " + std::to_string(o.value);
  }
  return "";
}

TEST(FuzzedOrder, StepsReadWhatIsThereAndWaitLate) {
  const auto first = static_cast<unsigned>(FuzzSetting("FF_FUZZ_SEED", 1));
  for (unsigned seed = first; seed < first + static_cast<unsigned>(FuzzSetting("FF_FUZZ_GRAPHS", 400)); ++seed) {
    const std::string text = Speaking(seed).Run();
    absl::StatusOr<ir::Graph> graph = ir::Parse(text);
    if (!graph.ok() && seed == first) GTEST_SKIP() << "torch without collectives: " << MessageOf(graph.status());
    ASSERT_TRUE(graph.ok()) << MessageOf(graph.status()) << text;
    ASSERT_EQ(Check(&*graph), "") << "FF_FUZZ_SEED=" << seed << "\n" << text;
  }
}

}  // namespace
}  // namespace framefuse
