// ArrayRecipes: recipes of arrays of numpy: those with the memory of tensors, and what numpy makes of them.
// Invariant: a call of which numpy may warn has a recipe, and they are run in the order of the program.
#ifndef FRAMEFUSE_SYMBOLIC_RECONSTRUCT_ARRAY_RECIPES_H_
#define FRAMEFUSE_SYMBOLIC_RECONSTRUCT_ARRAY_RECIPES_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "frame_eval/ref.h"
#include "symbolic/entry/deferred_warnings.h"
#include "symbolic/entry/recipe.h"

namespace framefuse {

class RecipeBuilder;
struct Tracked;

class ArrayRecipes {
 public:
  absl::StatusOr<RecipeId> Of(RecipeBuilder& all, const Tracked& array);
  // Of one that the attempt made, and that holds what guards decide.
  static absl::StatusOr<RecipeId> OfOwn(RecipeBuilder& all, BorrowedRef array);
  // Of which numpy may warn as it makes them, up to one; null: all.
  absl::Status AddThoseThatWarn(RecipeBuilder& all, const Tracked* last);
  const std::vector<DeferredWarning>& warnings() const { return warnings_; }

 private:
  static absl::StatusOr<RecipeId> OfOperand(RecipeBuilder& all, BorrowedRef operand);

  std::vector<DeferredWarning> warnings_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RECONSTRUCT_ARRAY_RECIPES_H_
