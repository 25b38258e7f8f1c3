#include "backends/runtime/cond_gradients.h"

#include <ATen/ops/zeros.h>

#include "absl/container/flat_hash_set.h"
#include "common/index.h"

namespace framefuse {

namespace {

// What depends on the given inputs: values, and memory that was written from them.
class Reach {
 public:
  explicit Reach(const ir::Graph& graph) : graph_(graph), values_(graph.values.size(), false) {}

  bool Has(ir::ValueId v) const {
    return v != ir::kNoValue && (values_[At(v)] || memory_.contains(graph_.value(v).storage));
  }

  void Add(ir::ValueId v) {
    if (v != ir::kNoValue) values_[At(v)] = true;
  }

  void Pass(const ir::Node& n) {
    bool reads = false;
    ir::ForEachUse(n, [&](ir::ValueId v) { reads = reads || Has(v); });
    if (!reads) return;
    for (const ir::ValueId v : n.outputs) Add(v);
    for (std::size_t a = 0; a < n.args.size(); ++a) {
      if (!n.op->arguments()[a].written) continue;
      ir::ForEachValue(n.args[a], [&](ir::ValueId v) {
        Add(v);
        if (graph_.value(v).storage >= 0) memory_.insert(graph_.value(v).storage);
      });
    }
  }

 private:
  const ir::Graph& graph_;
  std::vector<bool> values_;
  absl::flat_hash_set<ir::StorageId> memory_;
};

}  // namespace

std::vector<bool> ReachedOutputs(const ir::Graph& branch, const std::vector<bool>& given) {
  Reach reach(branch);
  for (std::size_t i = 0; i < branch.inputs.size(); ++i) {
    if (given[i]) reach.Add(branch.inputs[i].value);
  }
  for (const ir::Node& n : branch.nodes) reach.Pass(n);
  std::vector<bool> outputs;
  for (const ir::Output& o : branch.outputs) outputs.push_back(reach.Has(o.value));
  return outputs;
}

at::Tensor ZerosForInput(const ir::Graph& branch, std::size_t input) {
  const ir::Value& v = branch.value(branch.inputs[input].value);
  std::vector<std::int64_t> sizes;
  for (const ir::Dim& d : v.sizes) sizes.push_back(d.constant());
  return at::zeros(sizes, at::device(v.device).dtype(v.dtype));
}

}  // namespace framefuse
