#include "backends/passes/written_memory.h"

#include <cstddef>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "backends/graph/operators.h"
#include "backends/graph/subgraph.h"
#include "common/index.h"

namespace framefuse {
namespace {

using ir::ValueId;

// By root.
std::vector<bool> WrittenRoots(const ir::Graph& g, const Aliases& aliases) {
  std::vector<bool> written(g.values.size(), false);
  for (const ir::Node& n : g.nodes) {
    for (std::size_t a = 0; a < n.args.size(); ++a) {
      if (!n.op->arguments()[a].written) continue;
      ir::ForEachValue(n.args[a], [&](ValueId v) { written[At(aliases.RootOf(v))] = true; });
    }
  }
  return written;
}

// What a dropped node made is not there.
std::vector<bool> ThereIs(const ir::Graph& g) {
  std::vector<bool> there(g.values.size(), false);
  for (const ir::Input& in : g.inputs) there[At(in.value)] = true;
  for (const ir::ConstantTensor& c : g.constants) there[At(c.value)] = true;
  for (const ir::Node& n : g.nodes) {
    for (ValueId v : n.outputs) {
      if (v != ir::kNoValue) there[At(v)] = true;
    }
  }
  return there;
}

}  // namespace

// Memory shared in ways that no view node shows cannot be followed through a write.
absl::Status CheckWrittenMemory(const ir::Graph& recorded, const Aliases& aliases) {
  const std::vector<bool> written = WrittenRoots(recorded, aliases), there = ThereIs(recorded);
  absl::flat_hash_map<ir::StorageId, ValueId> roots;
  for (std::size_t v = 0; v < recorded.values.size(); ++v) {
    const ir::StorageId storage = recorded.values[v].storage;
    if (storage < 0 || recorded.values[v].kind != ir::ValueKind::kTensor || !there[v]) continue;
    const ValueId root = aliases.RootOf(static_cast<ValueId>(v));
    const auto [it, inserted] = roots.try_emplace(storage, root);
    if (it->second != root && (written[At(root)] || written[At(it->second)])) {
      return absl::UnimplementedError("a tensor is written whose memory another tensor shares without being its view");
    }
  }
  for (const ir::Input& in : recorded.inputs) {
    if (in.overlap_class != 0 && written[At(in.value)]) {
      return absl::UnimplementedError(absl::StrCat("input ", in.name, " is written and may overlap another input"));
    }
  }
  return absl::OkStatus();
}

}  // namespace framefuse
