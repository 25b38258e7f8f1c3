#include "backends/runtime/accuracy_probe.h"

#include <set>
#include <utility>

#include "backends/graph/subgraph.h"
#include "common/index.h"

namespace framefuse {
namespace {

using ir::kNoValue;
using ir::NodeIndex;
using ir::ValueId;

AccuracyProbe& Slot() {
  static auto* const slot = new AccuracyProbe;
  return *slot;
}

// Nodes that compute `results`, in order; what they read and no one of them makes goes to `missing`.
std::vector<NodeIndex> NodesBetween(const ir::Graph& graph, const std::set<ValueId>& known,
                                    const std::vector<ValueId>& results, std::set<ValueId>* missing) {
  std::set<ValueId> wanted(results.begin(), results.end());
  std::vector<NodeIndex> nodes;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const ir::Node& n = graph.nodes[i];
    bool needed = false;
    for (ValueId v : n.outputs) needed = (v != kNoValue && wanted.erase(v) > 0) || needed;
    if (!needed) continue;
    nodes.insert(nodes.begin(), static_cast<NodeIndex>(i));
    ir::ForEachUse(n, [&](ValueId v) {
      if (v != kNoValue && !known.contains(v)) wanted.insert(v);
    });
  }
  *missing = std::move(wanted);
  return nodes;
}

}  // namespace

const AccuracyProbe& TheAccuracyProbe() { return Slot(); }
void SetAccuracyProbe(AccuracyProbe probe) { Slot() = std::move(probe); }

std::string PieceText(const ir::Graph& graph, std::vector<ValueId>* reads, const std::vector<ValueId>& results) {
  std::set<ValueId> known, missing;
  for (const ir::ConstantTensor& c : graph.constants) known.insert(c.value);
  known.insert(reads->begin(), reads->end());
  const std::vector<NodeIndex> nodes = NodesBetween(graph, known, results, &missing);
  reads->insert(reads->end(), missing.begin(), missing.end());
  ir::SubgraphBuilder builder(graph, graph.name);
  std::vector<ValueId> inputs;
  for (ValueId v : *reads) {
    if (builder.Has(v)) continue;
    builder.AddInput(v, ir::Input{});
    inputs.push_back(v);
  }
  *reads = std::move(inputs);
  for (NodeIndex i : nodes) {
    ir::Node node = graph.nodes[At(i)];
    node.phase = ir::Phase::kForward;
    builder.AddNode(node);
  }
  for (ValueId v : results) {
    ir::Output facts;
    facts.value = v;
    builder.AddOutput(facts);
  }
  ir::Graph piece = builder.Take();
  for (ir::Value& v : piece.values) v.requires_grad = false;
  return ir::Print(piece);
}

}  // namespace framefuse
