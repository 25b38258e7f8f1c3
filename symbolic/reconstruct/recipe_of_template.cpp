// RecipeBuilder: template strings (Python 3.14) and what is put into them.
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/reconstruct/recipe_builder.h"
#include "symbolic/rules/builtin_types.h"

namespace framefuse {
namespace {

absl::Status NoRecipeOfTemplate(BorrowedRef object) {
  return MakeGraphBreak(GraphBreakKind::kNoRecipe, absl::StrCat("a ", object.type()->tp_name));
}

}  // namespace

// Made by its class, of strings and parts in turn; a part of what it says of itself.
absl::StatusOr<RecipeId> RecipeBuilder::OfTemplate(BorrowedRef object) {
  std::vector<Ref> parts;
  if (IsTemplate(object)) {
    const Ref strings = Ref::Steal(PyObject_GetAttrString(object, "strings"));
    const Ref between = Ref::Steal(PyObject_GetAttrString(object, "interpolations"));
    if (!strings || !between) return NoRecipeOfTemplate(object);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(strings.get()); ++i) {
      parts.push_back(Ref::Create(PyTuple_GET_ITEM(strings.get(), i)));
      if (i < PyTuple_GET_SIZE(between.get())) parts.push_back(Ref::Create(PyTuple_GET_ITEM(between.get(), i)));
    }
  } else {
    for (const char* name : {"value", "expression", "conversion", "format_spec"}) {
      parts.push_back(Ref::Steal(PyObject_GetAttrString(object, name)));
      if (!parts.back()) return NoRecipeOfTemplate(object);
    }
  }
  std::vector<RecipeId> ids;
  for (const Ref& part : parts) {
    FF_ASSIGN_OR_RETURN(const RecipeId id, Of(part));
    ids.push_back(id);
  }
  return Add(RecipeOp::kCall, std::move(ids), reinterpret_cast<PyObject*>(object.type()));
}

}  // namespace framefuse
