// What the entry calls to make arrays of numpy.
#include "symbolic/reconstruct/array_recipes.h"

#include <utility>
#include <vector>

#include "common/status.h"
#include "frame_eval/import_module.h"
#include "symbolic/capture/capture.h"
#include "symbolic/journals/array_memory.h"
#include "symbolic/journals/array_writes.h"
#include "symbolic/reconstruct/recipe_builder.h"
#include "symbolic/rules/number_arrays.h"
#include "symbolic/tracing/later_writes.h"

namespace framefuse {
namespace {

// torch.Tensor.numpy
PyObject* MakerOfArrays() {
  static PyObject* const method = [] {
    const Ref torch = ImportModule("torch");
    const Ref cls = torch ? Ref::Steal(PyObject_GetAttrString(torch, "Tensor")) : Ref();
    return cls ? PyObject_GetAttrString(cls, "numpy") : nullptr;
  }();
  return method;
}

PyObject* Helper(const char* name) {
  const Ref module = ImportModule("framefuse._array_functions");
  return module ? PyObject_GetAttrString(module, name) : nullptr;
}

// Torch took its memory for a tensor. The graph has one of its own, and an array of that would not own it.
bool OwnsItsMemory(BorrowedRef array) {
  const Ref base = Ref::Steal(PyObject_GetAttrString(array, "base"));
  return base.get() == Py_None;
}

// What the entry calls with the operands.
Ref CallOf(const MadeArray& made) {
  static PyObject* const helper = Helper("as_entry_calls");
  Ref place = Ref::Create(Py_None);
  if (made.warns_here && !made.warnings.empty()) {
    const DeferredWarning& w = made.warnings.front();
    place = Ref::Steal(PyTuple_Pack(4, w.category.get(), w.path.get(), w.line.get(), w.module.get()));
  }
  if (helper == nullptr || !place) return Ref();
  return Ref::Steal(PyObject_CallFunctionObjArgs(helper, made.function.get(), made.named.get(), place.get(), nullptr));
}

}  // namespace

absl::StatusOr<RecipeId> ArrayRecipes::OfOperand(RecipeBuilder& all, BorrowedRef operand) {
  PyObject* o = operand;
  const ObjectTable& objects = all.capture_.objects();
  if (IsArray(operand)) return objects.IsEmptyArray(operand) ? all.Of(operand) : all.Constant(operand);
  if (!PyList_CheckExact(o) && !PyTuple_CheckExact(o)) return all.Constant(operand);
  std::vector<RecipeId> items;
  bool any = false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(o, i);
    any = any || objects.IsEmptyArray(item);
    FF_ASSIGN_OR_RETURN(const RecipeId id, OfOperand(all, item));
    items.push_back(id);
  }
  return any ? all.Add(RecipeOp::kTuple, std::move(items)) : all.Constant(operand);
}

// In each call another one, that holds the same; of a view the same view of it.
absl::StatusOr<RecipeId> ArrayRecipes::OfOwn(RecipeBuilder& all, BorrowedRef array) {
  static PyObject* const copies = Helper("copy_of");
  static PyObject* const views = Helper("view_like");
  const Ref base = Ref::Steal(PyObject_GetAttrString(array, "base"));
  if (!base || !IsOwnArray(all.capture_.objects(), array)) {
    return MakeGraphBreak(GraphBreakKind::kNoRecipe, "an array of numpy that is a part of one from outside");
  }
  if (base.get() != Py_None) {
    const Ref view = Ref::Steal(PyObject_CallOneArg(views, array));
    if (!view) return absl::InternalError("a view of an array could not be kept");
    FF_ASSIGN_OR_RETURN(const RecipeId whole, all.Of(base));
    return all.known_[array.get()] = all.Add(RecipeOp::kCall, {whole}, view);
  }
  const Ref kept = Ref::Steal(PyObject_CallOneArg(copies, array));
  if (!kept) return absl::InternalError("an array could not be kept");
  return all.known_[array.get()] = all.Add(RecipeOp::kCall, {all.Constant(kept)}, copies);
}

absl::StatusOr<RecipeId> ArrayRecipes::Of(RecipeBuilder& all, const Tracked& array) {
  if (array.memory_of) {
    if (HasLostItsTensor(array)) {
      return MakeGraphBreak(GraphBreakKind::kTensorMutation, "a tensor with an array of numpy becomes another");
    }
    if (MakerOfArrays() == nullptr || OwnsItsMemory(array.representative)) {
      return MakeGraphBreak(GraphBreakKind::kNoRecipe, "an array of numpy that shares its memory");
    }
    FF_ASSIGN_OR_RETURN(const RecipeId tensor, all.Of(array.memory_of));
    return all.known_[array.representative.get()] = all.Add(RecipeOp::kCall, {tensor}, MakerOfArrays());
  }
  const MadeArray& made = *array.made;
  if (absl::Status s = AddThoseThatWarn(all, &array); !s.ok()) return s;
  for (const auto& [tensor, from] : made.reads) {
    if (tracing::IsWrittenFrom(tensor, from)) {
      return MakeGraphBreak(GraphBreakKind::kTensorMutation, "a write to the memory of an array that numpy reads");
    }
  }
  std::vector<RecipeId> operands;
  for (const Ref& arg : made.args) {
    FF_ASSIGN_OR_RETURN(const RecipeId id, OfOperand(all, arg));
    operands.push_back(id);
  }
  const Ref call = CallOf(made);
  if (!call) return absl::InternalError("a call of numpy could not be kept");
  warnings_.insert(warnings_.end(), made.warnings.begin(), made.warnings.end());
  return all.known_[array.representative.get()] = all.Add(RecipeOp::kNumpy, std::move(operands), call);
}

absl::Status ArrayRecipes::AddThoseThatWarn(RecipeBuilder& all, const Tracked* last) {
  for (const auto& t : all.capture_.objects().tracked().all()) {
    if (t.get() == last) break;
    if (t->made == nullptr || t->made->warnings.empty() || all.known_.contains(t->representative.get())) continue;
    if (absl::StatusOr<RecipeId> id = Of(all, *t); !id.ok()) return id.status();
  }
  return absl::OkStatus();
}

}  // namespace framefuse
