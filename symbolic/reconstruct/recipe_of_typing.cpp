// RecipeBuilder: aliases of the module typing. It keeps them and gives the same one again, so a rebuilt one is asked
// for.
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "frame_eval/hook.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/reconstruct/recipe_builder.h"

namespace framefuse {
namespace {

// (form, key) of `form[key]`, which the alias says it is; null: it is none.
Ref FormAndKey(BorrowedRef object, BorrowedRef get_item) {
  const Ref reduced = Ref::Steal(PyObject_CallMethod(object, "__reduce__", nullptr));
  if (!reduced) PyErr_Clear();
  const bool is_alias = reduced && PyTuple_CheckExact(reduced.get()) && PyTuple_GET_SIZE(reduced.get()) == 2 &&
                        PyTuple_GET_ITEM(reduced.get(), 0) == get_item.get();
  return is_alias ? Ref::Create(PyTuple_GET_ITEM(reduced.get(), 1)) : Ref();
}

}  // namespace

absl::StatusOr<RecipeId> RecipeBuilder::OfTyping(BorrowedRef object) {
  static PyObject* const get_item = [] {
    const Ref module = Ref::Steal(PyImport_ImportModule("operator"));
    return module ? PyObject_GetAttrString(module, "getitem") : nullptr;
  }();
  const HookScope native(HookMode::kOff);
  Ref parts = FormAndKey(object, get_item);
  if (!parts) return OfInstance(object);
  // One of which typing made another, as of Union[int, int], is found under another key.
  const Ref again = Ref::Steal(PyObject_CallObject(get_item, parts));
  if (!again) PyErr_Clear();
  if (again.get() != object.get()) {
    return MakeGraphBreak(GraphBreakKind::kNoRecipe, absl::StrCat("a ", object.type()->tp_name));
  }
  const BorrowedRef form(PyTuple_GET_ITEM(parts.get(), 0)), key(PyTuple_GET_ITEM(parts.get(), 1));
  keep_alive_.push_back(std::move(parts));
  // A class may be one of this attempt; the other forms are typing's own.
  FF_ASSIGN_OR_RETURN(const RecipeId of_form,
                      PyType_Check(form.get()) ? Of(form) : absl::StatusOr<RecipeId>(Constant(form)));
  FF_ASSIGN_OR_RETURN(const RecipeId of_key, Of(key));
  return Add(RecipeOp::kCall, {of_form, of_key}, get_item);
}

}  // namespace framefuse
