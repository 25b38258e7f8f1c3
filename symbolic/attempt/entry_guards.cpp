#include "symbolic/attempt/entry_guards.h"

#include <memory>
#include <utility>
#include <vector>

namespace framefuse {

absl::Status MakeGuards(Capture& capture, CompiledEntry& entry) {
  std::vector<SourceId> resolve = entry.inputs;
  resolve.insert(resolve.end(), capture.reads().leaves().begin(), capture.reads().leaves().end());
  if (entry.sizes != nullptr) {
    for (const EntrySizes::Symbol& s : entry.sizes->symbols) {
      if (s.source != kNoSource) resolve.push_back(s.source);
    }
  }
  for (const RecipeStep& step : entry.recipes.steps()) {
    if (step.op == RecipeOp::kSource) resolve.push_back(step.index);
    // What may die with the frame that made it is looked for before the entry runs.
    if (step.object.weak()) resolve.push_back(capture.reads().ElementSource(step.object.get()));
  }
  absl::StatusOr<std::unique_ptr<GuardProgram>> guards =
      capture.reads().guards().Compile(resolve, capture.frames().SlotNames());
  if (!guards.ok()) return guards.status();
  entry.guards = *std::move(guards);
  return absl::OkStatus();
}

}  // namespace framefuse
