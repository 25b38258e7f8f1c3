// What an object that was made here has beside its items: its own attributes, and the factory of a defaultdict.

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "symbolic/capture/capture.h"
#include "symbolic/reconstruct/recipe_builder.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/native_items.h"

namespace framefuse {

absl::Status RecipeBuilder::AddFactory(BorrowedRef object, RecipeId made) {
  const BorrowedRef factory = IsDefaultDict(object) ? RawFactoryOf(object) : BorrowedRef();
  if (!factory) return absl::OkStatus();
  FF_ASSIGN_OR_RETURN(const RecipeId id, Of(factory));
  Add(RecipeOp::kSetAttr, {made, id}, FactorySlot());
  return absl::OkStatus();
}

absl::Status RecipeBuilder::AddAttributes(BorrowedRef object, RecipeId made) {
  if (!frame_ops::HasInstanceAttrs(object)) return absl::OkStatus();
  Ref attributes = Ref::Steal(PyObject_GenericGetDict(object, nullptr));
  PyErr_Clear();
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (attributes && PyDict_Next(attributes, &position, &key, &value)) {
    if (!PyUnicode_CheckExact(key)) {
      return MakeGraphBreak(GraphBreakKind::kNoRecipe, absl::StrCat("a ", object.type()->tp_name));
    }
    absl::StatusOr<RecipeId> id = Of(value);
    if (!id.ok()) return id.status();
    Add(RecipeOp::kSetAttr, {made, *id}, key);
  }
  return absl::OkStatus();
}

}  // namespace framefuse
