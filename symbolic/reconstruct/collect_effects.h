// collect_effects: the writes of an attempt as the effects of its entry.
// Invariant: changes nothing of the attempt.
#ifndef FRAMEFUSE_SYMBOLIC_RECONSTRUCT_COLLECT_EFFECTS_H_
#define FRAMEFUSE_SYMBOLIC_RECONSTRUCT_COLLECT_EFFECTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "symbolic/entry/effects.h"
#include "symbolic/reconstruct/recipe_builder.h"

namespace framefuse {

// The effects of all overlays and replaced shadows, in order of first load; a graph break if one has no recipe.
absl::StatusOr<std::vector<Effect>> CollectEffects(Capture& capture, RecipeBuilder& recipes);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RECONSTRUCT_COLLECT_EFFECTS_H_
