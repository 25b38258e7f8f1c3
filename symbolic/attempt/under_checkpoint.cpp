#include "symbolic/attempt/under_checkpoint.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "backends/graph/input_writes.h"
#include "guards/leaf/saved_tensor_hooks.h"
#include "symbolic/executables/executable.h"
#include "symbolic/executables/random_state.h"

namespace framefuse {
namespace {

bool SavesTensors(const tracing::TracedGraph& graph) {
  return graph.graph != nullptr &&
         absl::c_any_of(graph.graph->outputs, [](const ir::Output& o) { return o.requires_grad; });
}

const char* DoneBesides(Capture& capture, const Closed& closed, bool for_python) {
  const CompiledEntry& entry = *closed.entry;
  const auto asks = [](const tracing::TracedInput& in) { return in.asked_for_grad; };
  // A graph for Python saves as it runs.
  const bool writes_late = !for_python && ir::WritesBehindLastSaved(*closed.graph.graph);
  if (!closed.graph.geometry_effects.empty() || writes_late) {
    return "it writes tensors behind all that is saved";
  }
  const auto goes_by_value = [](const Guard& g) { return g.kind == GuardKind::kValueOfTensors; };
  if (WritesInputs(closed.graph) && absl::c_any_of(capture.reads().guards().guards(), goes_by_value)) {
    return "it writes tensors, and goes by numbers in tensors";
  }
  if (HasSideEffects(closed.graph)) return "an operator of it acts on more than tensors";
  if (!entry.effects.empty()) return "it writes objects, or says something";
  if (!closed.graph.gradient_effects.empty() || absl::c_any_of(closed.graph.inputs, asks)) {
    return "it changes what autograd keeps of its arguments";
  }
  if (entry.end_state || entry.end_exception != kNoRecipe) return "it changes torch's state";
  if (!capture.draws().all().empty()) return "it draws random numbers in Python";
  if (!GeneratorsOf(*closed.graph.graph).given.empty()) return "it draws from a generator that it was given";
  // A deferred fact that does not hold is found before anything is saved, and in both runs alike.
  if (!entry.expects.outputs.empty() || !entry.expects.warnings.empty()) {
    return "Python may have to go on with it";
  }
  return nullptr;
}

}  // namespace

bool IsKept() { return SavedTensorHooksNow() == SavedTensorHooks::kKeep; }

std::string WhyLeftToCheckpoint(Capture& capture, const Closed& closed, bool for_python) {
  if (!IsKept() || !SavesTensors(closed.graph)) return "";
  const char* const besides = DoneBesides(capture, closed, for_python);
  return besides == nullptr ? "" : absl::StrCat("it runs inside of one, whose hooks keep what it saves, and ", besides);
}

}  // namespace framefuse
