// Recipes of symbolic numbers: computed anew in each call. Numpy's are made by their types.

#include "symbolic/capture/capture.h"
#include "symbolic/reconstruct/recipe_builder.h"
#include "symbolic/tracing/numbers.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

RecipeId RecipeBuilder::OfSize(BorrowedRef number) {
  RecipeId& id = known_.try_emplace(number.get(), kNoRecipe).first->second;
  if (id != kNoRecipe) return id;
  id = Add(RecipeOp::kSize, {}, nullptr, capture_.tracer().numbers().Find(number)->expr);
  const bool of_python = PyLong_CheckExact(number.get()) || PyFloat_CheckExact(number.get());
  if (!of_python) id = Add(RecipeOp::kCall, {id}, reinterpret_cast<PyObject*>(number.type()));
  return id;
}

}  // namespace framefuse
