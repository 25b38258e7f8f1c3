#include "backends/fusion/reuse_memory.h"

#include <algorithm>
#include <set>

#include "backends/fusion/node_kinds.h"
#include "backends/passes/aliases.h"
#include "common/index.h"

namespace framefuse::fusion {
namespace {

using ir::kNoValue;
using ir::Node;
using ir::ValueId;

// Which values may be in one memory. An operator that is no kernel's may return its argument.
class Sharing {
 public:
  explicit Sharing(const ir::Graph& graph) : root_(graph.values.size()) {
    for (std::size_t v = 0; v < root_.size(); ++v) root_[v] = static_cast<ValueId>(v);
    for (const Node& n : graph.nodes) {
      const bool views = ViewedArgument(*n.op) >= 0;
      if (!views && (n.op->is_pointwise() || IsProduct(n))) continue;
      ir::ForEachUse(n, [&](ValueId from) {
        for (const ValueId to : n.outputs) {
          if (to == kNoValue) continue;
          const ir::Value &a = graph.value(from), &b = graph.value(to);
          if (views || (a.sizes == b.sizes && a.dtype == b.dtype)) root_[At(RootOf(to))] = RootOf(from);
        }
      });
    }
  }
  ValueId RootOf(ValueId v) const {
    while (root_[At(v)] != v) v = root_[At(v)];
    return v;
  }

 private:
  std::vector<ValueId> root_;
};

class Reuser {
 public:
  Reuser(const ir::Graph& graph, const std::vector<std::unique_ptr<Step>>& steps)
      : g_(graph), steps_(steps), sharing_(graph), last_(graph.values.size(), 0) {
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      for (const ValueId v : steps_[s]->Reads()) Last(v) = s;
      if (steps_[s]->IsKernel()) Own(steps_[s]->Results());
      for (const ir::NodeIndex n : steps_[s]->Operators()) {
        if (IsProduct(g_.nodes[At(n)])) Own(g_.nodes[At(n)].outputs);
      }
    }
    for (const Node& n : g_.nodes) {
      if (IsWholeView(n) && own_.contains(n.args[0].value)) Own(n.outputs);
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
      if (!steps_[s]->IsKernel()) continue;
      std::vector<ValueId> dying = DyingAt(s);
      for (const ValueId result : steps_[s]->Results()) {
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
