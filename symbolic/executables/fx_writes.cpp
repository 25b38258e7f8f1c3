#include "symbolic/executables/fx_writes.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

#include "symbolic/tracing/version_counter.h"

namespace framefuse {

int NodeAfterFollowedWrite(const ir::Graph& graph, absl::Span<const FxWrite> writes) {
  auto first = graph.nodes.size();
  for (const FxWrite& w : writes) {
    if (w.followed) first = std::min(first, static_cast<std::size_t>(w.in_graph.first_node));
  }
  for (std::size_t i = first + 1; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].phase == ir::Phase::kBackward) break;
    if (ir::MayRaise(graph, graph.nodes[i])) return static_cast<int>(i);
  }
  return -1;
}

FxWrittenInputs::FxWrittenInputs(absl::Span<const FxWrite> writes, absl::Span<PyObject* const> inputs) {
  for (const FxWrite& w : writes) {
    const at::Tensor& t = THPVariable_Unpack(inputs[w.input]);
    const bool has_version = !t.is_inference();
    const bool counted = w.counted && has_version;
    const int bumps = has_version ? w.bumps : -1;
    inputs_.push_back({&t, counted, w.followed, has_version ? t._version() : 0, bumps, std::nullopt});
    // Where no version tells that an operator raised before the write, memory has to.
    const bool kept = w.in_graph.kept || (w.in_graph.raises && !counted);
    if (kept && t.layout() == c10::kStrided) inputs_.back().memory.emplace(t, w.in_graph.whole);
  }
}

bool FxWrittenInputs::TakeBack() const {
  const auto is_lost = [](const Input& in) {
    const bool untouched = in.counted && in.tensor->_version() == in.version;
    return !untouched && (in.followed || !in.memory.has_value());
  };
  if (std::any_of(inputs_.begin(), inputs_.end(), is_lost)) return false;
  for (const Input& in : inputs_) {
    if (in.memory.has_value()) in.memory->PutBack();
  }
  return true;
}

void FxWrittenInputs::CountAsEager() const {
  for (const Input& in : inputs_) {
    if (in.bumps >= 0) tracing::CounterOf(*in.tensor).set_version(in.version + in.bumps);
  }
}

}  // namespace framefuse
