#include "backends/fusion/reuse_memory.h"

#include <algorithm>
#include <set>

#include "backends/fusion/node_kinds.h"
#include "backends/fusion/sharing.h"
#include "backends/graph/collectives.h"
#include "backends/runtime/in_place_form.h"
#include "common/index.h"

namespace framefuse::fusion {
namespace {

using ir::kNoValue;
using ir::Node;
using ir::ValueId;

class Reuser {
 public:
  Reuser(const ir::Graph& graph, const std::vector<std::unique_ptr<Step>>& steps)
      : g_(graph), steps_(steps), sharing_(graph), last_(graph.values.size(), 0) {
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      for (const ValueId v : steps_[s]->Reads()) Last(v) = s;
      if (steps_[s]->IsKernel()) Own(steps_[s]->Results());
      for (const ir::NodeIndex n : steps_[s]->Operators()) {
        if (MakesItsOwn(g_.nodes[At(n)])) Own(g_.nodes[At(n)].outputs);
      }
    }
    for (const Node& n : g_.nodes) {
      if ((IsWholeView(n) || ir::WaitsForOthers(n)) && own_.contains(n.args[0].value)) Own(n.outputs);
    }
    for (const ir::Input& i : g_.inputs) Last(i.value) = steps_.size();
    for (const ir::ConstantTensor& c : g_.constants) Last(c.value) = steps_.size();
    for (const ir::Output& o : g_.outputs) {
      if (o.value != kNoValue) Last(o.value) = steps_.size();
    }
  }

  int Run() {
    int taken = 0;
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      const std::vector<ValueId> results = MayBeOver(*steps_[s]);
      if (results.empty()) continue;
      std::vector<ValueId> dying = DyingAt(s);
      for (const ValueId result : results) {
        const auto over = std::find_if(dying.begin(), dying.end(), [&](ValueId v) {
          return HasLayoutOf(result, v) && steps_[s]->WriteOver(result, v);
        });
        if (over == dying.end()) continue;
        dying.erase(over);
        ++taken;
      }
    }
    return taken;
  }

 private:
  std::size_t& Last(ValueId v) { return last_[At(sharing_.RootOf(v))]; }
  void Own(const std::vector<ValueId>& values) {
    for (const ValueId v : values) {
      if (v != kNoValue) own_.insert(v);
    }
  }

  // A collective is a step of its own, and copies its argument only to write the copy.
  bool IsInPlace(const Step& step) const {
    const absl::Span<const ir::NodeIndex> nodes = step.Operators();
    return !step.IsKernel() && nodes.size() == 1 && CopiesForOthers(g_.nodes[At(nodes[0])]) &&
           InPlaceFormOf(g_, g_.nodes[At(nodes[0])]).op != nullptr;
  }
  std::vector<ValueId> MayBeOver(const Step& step) const {
    if (step.IsKernel()) return step.Results();
    return IsInPlace(step) ? g_.nodes[At(step.Operators()[0])].outputs : std::vector<ValueId>{};
  }
  // What step s reads by one name, and nobody after it.
  std::vector<ValueId> DyingAt(std::size_t s) {
    std::vector<ValueId> dying;
    const std::vector<ValueId> reads = steps_[s]->Reads();
    for (const ValueId v : reads) {
      const auto names = std::count_if(reads.begin(), reads.end(),
                                       [&](ValueId r) { return sharing_.RootOf(r) == sharing_.RootOf(v); });
      if (own_.contains(v) && names == 1 && Last(v) == s) dying.push_back(v);
    }
    return dying;
  }

  bool HasLayoutOf(ValueId result, ValueId v) const {
    const ir::Value &a = g_.value(result), &b = g_.value(v);
    return a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides && a.device == b.device;
  }

  const ir::Graph& g_;
  const std::vector<std::unique_ptr<Step>>& steps_;
  const Sharing sharing_;
  std::vector<std::size_t> last_;  // by root: the last step that may read it
  std::set<ValueId> own_;          // all of a memory that a step allocated
};

}  // namespace

int ReuseMemory(const ir::Graph& graph, const std::vector<std::unique_ptr<Step>>& steps) {
  return Reuser(graph, steps).Run();
}

}  // namespace framefuse::fusion
