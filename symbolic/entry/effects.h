// Effect: one write that an entry replays on live objects after its plan ran.
// Invariant: everything an effect needs is a register of the entry's recipes, computed before the first effect
// (soundness rule 9); applying one runs no user code, because what user code did was captured.
#ifndef FRAMEFUSE_SYMBOLIC_ENTRY_EFFECTS_H_
#define FRAMEFUSE_SYMBOLIC_ENTRY_EFFECTS_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "frame_eval/ref.h"
#include "symbolic/entry/recipe.h"

namespace framefuse {

enum class EffectKind : std::uint8_t {
  kSetAttr,  // target.name = value, raw (`name` a str, or the descriptor of a member)
  kDeleteAttr,
  kSetClassAttr,  // target, a class
  kSetItem,       // target[name register] = value of an exact dict
  kDeleteItem,
  kAddElement,       // target.add(key), a set
  kDiscardElement,   // target.discard(key)
  kReplaceContents,  // target's contents become value's (list, dict, set, deque)
  kExtendList,       // target.extend(value)
  kStoreGlobal,      // target is a globals dict
  kDeleteGlobal,
  kStoreCell,
  kSetGrad,     // target.grad = value
  kCallMethod,  // target.name(*key), a method of torch's that changes sizes
  kCallCached,  // target(*key, **value), the result dropped: counts in a functools.lru_cache, or is a deferred call
  kKeepCached,  // target, a functools.lru_cache, keeps value for a call with key, a pair of args and kwargs or None
  kSetContext,  // target, a context variable, is set to value
};

struct Effect {
  EffectKind kind = EffectKind::kSetAttr;
  RecipeId target = kNoRecipe;
  RecipeId key = kNoRecipe;
  RecipeId value = kNoRecipe;
  Ref name;
};

// False: a Python error is set.
bool ApplyEffect(const Effect& effect, const std::vector<Ref>& registers);
const char* EffectName(EffectKind kind);
// For tests (common/coverage.h): applied, or not where the call raised before its first write.
void CountEffects(absl::Span<const Effect> effects, bool applied);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ENTRY_EFFECTS_H_
