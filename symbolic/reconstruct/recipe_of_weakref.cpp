// RecipeBuilder: weak references that captured code made.
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "frame_eval/versions/private_api.h"
#include "symbolic/capture/capture.h"
#include "symbolic/reconstruct/recipe_builder.h"

namespace framefuse {

absl::StatusOr<RecipeId> RecipeBuilder::OfWeakref(BorrowedRef object) {
  PyObject* target = private_api::Referent(object.get());
  PyObject* callback = reinterpret_cast<PyWeakReference*>(object.get())->wr_callback;
  // What has one was not dropped: a drop looks for them.
  const bool lives = callback != nullptr || !capture_.writes().AnyMayHaveEnded();
  if (capture_.objects().Find(target) == nullptr || !lives) {
    return MakeGraphBreak(GraphBreakKind::kNoRecipe, absl::StrCat("a ", object.type()->tp_name));
  }
  PyObject* parts[] = {target, callback};
  FF_ASSIGN_OR_RETURN(std::vector<RecipeId> ids, OfAll(absl::MakeSpan(parts, callback == nullptr ? 1 : 2)));
  return Add(RecipeOp::kCall, std::move(ids), reinterpret_cast<PyObject*>(object.type()));
}

}  // namespace framefuse
