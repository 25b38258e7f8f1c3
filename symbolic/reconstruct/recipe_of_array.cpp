// RecipeBuilder: arrays of numpy that captured code made of tensors.
#include "common/status.h"
#include "symbolic/capture/capture.h"
#include "symbolic/reconstruct/recipe_builder.h"

namespace framefuse {
namespace {

// torch.Tensor.numpy
PyObject* MakerOfArrays() {
  static PyObject* const method = [] {
    const Ref torch = Ref::Steal(PyImport_ImportModule("torch"));
    const Ref cls = torch ? Ref::Steal(PyObject_GetAttrString(torch, "Tensor")) : Ref();
    return cls ? PyObject_GetAttrString(cls, "numpy") : nullptr;
  }();
  return method;
}

}  // namespace

absl::StatusOr<RecipeId> RecipeBuilder::OfArray(const Tracked& array) {
  if (MakerOfArrays() == nullptr) {
    return MakeGraphBreak(GraphBreakKind::kNoRecipe, "an array of numpy that shares its memory");
  }
  FF_ASSIGN_OR_RETURN(const RecipeId tensor, Of(array.memory_of));
  return known_[array.representative.get()] = Add(RecipeOp::kCall, {tensor}, MakerOfArrays());
}

}  // namespace framefuse
