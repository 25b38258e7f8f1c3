// What an object that was made here has beside its items: its own attributes, the factory of a defaultdict, and the
// hooks of a tensor.

#include <torch/csrc/autograd/python_variable.h>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "symbolic/capture/capture.h"
#include "symbolic/reconstruct/recipe_builder.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/native_items.h"

namespace framefuse {
namespace {

absl::Status NoRecipe(BorrowedRef object) {
  return MakeGraphBreak(GraphBreakKind::kNoRecipe, absl::StrCat("a ", object.type()->tp_name));
}

bool StillHasHistory(const CachedCall& hook) {
  return THPVariable_Unpack(PyTuple_GET_ITEM(hook.args.get(), 0)).grad_fn().get() == hook.history.get();
}

}  // namespace

// In the order in which the frame put them there.
absl::StatusOr<RecipeId> RecipeBuilder::OfHandle(BorrowedRef object) {
  for (const CachedCall& call : capture_.writes().calls()) {
    if (call.history == nullptr || known_.contains(call.result.object.get())) continue;
    if (!StillHasHistory(call)) {
      return MakeGraphBreak(GraphBreakKind::kTensorMutation, "a write to a tensor on which a hook was put");
    }
    PyObject* handle = call.result.object.get();
    if (!making_.insert(handle).second) return NoRecipe(object);
    absl::StatusOr<std::vector<RecipeId>> parts = OfAll(absl::MakeSpan(&PyTuple_GET_ITEM(call.args.get(), 0), 2));
    making_.erase(handle);
    if (!parts.ok()) return parts.status();
    if (making_.empty()) FF_RETURN_IF_ERROR(FillCells());
    if (!known_.contains(handle)) known_[handle] = Add(RecipeOp::kCall, *std::move(parts), call.wrapper);
  }
  const auto made = known_.find(object.get());
  return made == known_.end() ? NoRecipe(object) : absl::StatusOr<RecipeId>(made->second);
}

absl::Status RecipeBuilder::AddAttributes(BorrowedRef object, RecipeId made) {
  if (const BorrowedRef factory = IsDefaultDict(object) ? RawFactoryOf(object) : BorrowedRef()) {
    FF_ASSIGN_OR_RETURN(const RecipeId id, Of(factory));
    Add(RecipeOp::kSetAttr, {made, id}, FactorySlot());
  }
  if (!frame_ops::HasInstanceAttrs(object)) return absl::OkStatus();
  Ref attributes = Ref::Steal(PyObject_GenericGetDict(object, nullptr));
  PyErr_Clear();
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (attributes && PyDict_Next(attributes, &position, &key, &value)) {
    if (!PyUnicode_CheckExact(key)) return NoRecipe(object);
    absl::StatusOr<RecipeId> id = Of(value);
    if (!id.ok()) return id.status();
    Add(RecipeOp::kSetAttr, {made, *id}, key);
  }
  return absl::OkStatus();
}

}  // namespace framefuse
