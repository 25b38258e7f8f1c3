// Metadata recomputed: each node's operator runs once more on the meta device, on tensors as its arguments' values are
// described, and what comes out is compared with what the graph says of its results.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/graph/graph.h"
#include "backends/graph/meta_run.h"
#include "common/status.h"

namespace framefuse::ir {
namespace {

absl::Status Differ(std::size_t result, const char* what, const std::string& said, const std::string& found) {
  return absl::InvalidArgumentError(absl::StrCat("result ", result, " has ", what, " ", said, "; recomputed: ", found));
}

// Strides of sizes of one, or of a tensor without elements, reach nothing.
bool SameStrides(const at::Tensor& t, const std::vector<std::int64_t>& strides) {
  for (std::size_t d = 0; d < strides.size() && t.numel() > 0; ++d) {
    if (t.sizes()[d] > 1 && t.strides()[d] != strides[d]) return false;
  }
  return true;
}

// `must`: it is an error that nothing tells the metadata.
absl::Status CheckNode(const Graph& g, const Node& n, bool strides_too, bool must = false) {
  const MetaRun run(g);
  FF_ASSIGN_OR_RETURN(std::optional<MetaResults> found, run.ResultsOf(n));
  if (!found.has_value()) return must ? absl::NotFoundError("no kernel tells its metadata") : absl::OkStatus();
  for (std::size_t r = 0; r < found->tensors.size() && r < n.outputs.size(); ++r) {
    const at::Tensor& t = found->tensors[r];
    const ValueId id = n.outputs[r];
    if (id == kNoValue || !t.defined() || !run.IsStrided(id)) continue;
    const Value& v = g.value(id);
    if (t.scalar_type() != v.dtype) return Differ(r, "dtype", c10::toString(v.dtype), c10::toString(t.scalar_type()));
    const std::vector<std::int64_t> sizes = run.Hints(v.sizes);
    if (t.sizes() != at::IntArrayRef(sizes)) {
      return Differ(r, "sizes", absl::StrJoin(sizes, ", "), absl::StrJoin(t.sizes(), ", "));
    }
    const std::vector<std::int64_t> strides = run.Hints(v.strides);
    if (strides_too && found->has_strides && !SameStrides(t, strides)) {
      return Differ(r, "strides", absl::StrJoin(strides, ", "), absl::StrJoin(t.strides(), ", "));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyMetadata(const Graph& graph, bool strides_too) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& n = graph.nodes[i];
    const absl::Status s = CheckNode(graph, n, strides_too);
    if (!s.ok()) return absl::InvalidArgumentError(absl::StrCat("node ", i, " (", n.op->name(), "): ", s.message()));
  }
  return absl::OkStatus();
}

absl::Status CheckGuessed(const Graph& graph) {
  for (const Node& n : graph.nodes) {
    if (!n.guessed) continue;
    const absl::Status s = CheckNode(graph, n, /*strides_too=*/true, /*must=*/true);
    if (!s.ok()) return absl::FailedPreconditionError(absl::StrCat(n.op->name(), " with these sizes: ", s.message()));
  }
  return absl::OkStatus();
}

}  // namespace framefuse::ir
