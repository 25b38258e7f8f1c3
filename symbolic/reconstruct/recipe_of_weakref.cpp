// RecipeBuilder: weak references that captured code made.
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "frame_eval/import_module.h"
#include "frame_eval/versions/private_api.h"
#include "symbolic/capture/capture.h"
#include "symbolic/journals/weak_targets.h"
#include "symbolic/reconstruct/recipe_builder.h"

namespace framefuse {
namespace {

// weakref.KeyedRef, which WeakValueDictionary keeps its values by, and what makes one without its own code.
struct KeyedRef {
  PyObject* type = nullptr;
  PyObject* maker = nullptr;
  PyObject* key = nullptr;  // its slot
};
const KeyedRef& Keyed() {
  static const KeyedRef* const found = [] {
    auto* made = new KeyedRef();
    const Ref module = ImportModule("weakref");
    if (module) made->type = PyObject_GetAttrString(module, "KeyedRef");
    if (made->type != nullptr) made->key = PyObject_GetAttrString(made->type, "key");
    made->maker = PyObject_GetAttrString(reinterpret_cast<PyObject*>(WeakrefType()), "__new__");
    PyErr_Clear();
    return made;
  }();
  return *found;
}

}  // namespace

absl::StatusOr<RecipeId> RecipeBuilder::OfWeakref(BorrowedRef object) {
  PyObject* target = private_api::Referent(object.get());
  PyObject* callback = reinterpret_cast<PyWeakReference*>(object.get())->wr_callback;
  // What has one was not dropped: a drop looks for them.
  const bool lives = callback != nullptr || !capture_.writes().AnyMayHaveEnded();
  const bool keyed = reinterpret_cast<PyObject*>(object.type()) == Keyed().type && callback != nullptr;
  const bool known = capture_.objects().Find(target) != nullptr;
  const bool own = !known && callback == nullptr && PyWeakref_CheckRefExact(object.get());
  const bool may_be_made = own && MayBeReferredTo(Py_TYPE(target));
  if ((!may_be_made && (!known || !lives)) || (!keyed && !PyWeakref_CheckRefExact(object.get()))) {
    return MakeGraphBreak(GraphBreakKind::kNoRecipe, absl::StrCat("a ", object.type()->tp_name));
  }
  if (keyed) {
    const Ref key = Ref::Steal(PyMemberDescr_Type.tp_descr_get(Keyed().key, object, Keyed().type));
    if (!key) return MakeGraphBreak(GraphBreakKind::kNoRecipe, "a KeyedRef without a key");
    PyObject* parts[] = {Keyed().type, target, callback, key};
    FF_ASSIGN_OR_RETURN(std::vector<RecipeId> ids, OfAll(parts));
    const RecipeId of_key = ids.back();
    ids.pop_back();
    const RecipeId made = known_[object.get()] = Add(RecipeOp::kCall, std::move(ids), Keyed().maker);
    Add(RecipeOp::kSetAttr, {made, of_key}, Keyed().key);
    return made;
  }
  PyObject* parts[] = {target, callback};
  FF_ASSIGN_OR_RETURN(std::vector<RecipeId> ids, OfAll(absl::MakeSpan(parts, callback == nullptr ? 1 : 2)));
  return Add(RecipeOp::kCall, std::move(ids), reinterpret_cast<PyObject*>(object.type()));
}

}  // namespace framefuse
