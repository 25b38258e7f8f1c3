// RecipeBuilder: makes recipes from live objects at the end of an attempt.
// Invariant: one object is one register; what has no recipe is a graph break that names its type.
#ifndef FRAMEFUSE_SYMBOLIC_RECONSTRUCT_RECIPE_BUILDER_H_
#define FRAMEFUSE_SYMBOLIC_RECONSTRUCT_RECIPE_BUILDER_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "symbolic/entry/recipe.h"
#include "symbolic/reconstruct/array_recipes.h"

namespace framefuse {

class Capture;
struct Tracked;

class RecipeBuilder {
 public:
  explicit RecipeBuilder(Capture& capture) : capture_(capture) {}
  // The recipe of an object that the evaluator holds; an unconsumed leaf keeps its source. The status is a
  // graph break (kNoRecipe) that names the value's type.
  absl::StatusOr<RecipeId> Of(BorrowedRef object, SourceId source = kNoSource);
  // Of a set. One that is added or discarded by itself may be an object that was made here.
  absl::StatusOr<RecipeId> OfElement(BorrowedRef element, bool may_be_fresh = false);
  // Whether the entry has the object when it has run: it existed before, or there is a recipe of it by now.
  bool Outlives(BorrowedRef object) const;
  RecipeId Constant(BorrowedRef object, bool element = false);
  RecipeId FromSource(SourceId source);
  // The output of the graph that a fake stands for.
  int OutputOf(BorrowedRef fake);
  RecipeId PlanOutput(int index) { return Add(RecipeOp::kTensor, {}, nullptr, index); }

  RecipeProgram Finish() &&;
  const std::vector<Ref>& tensors() const { return tensors_; }  // fakes, by output index
  ArrayRecipes& arrays() { return arrays_; }
  const std::vector<SourceId>& sources() const { return used_sources_; }

 private:
  friend class ArrayRecipes;

  RecipeId Add(RecipeOp op, std::vector<RecipeId> children, BorrowedRef object = nullptr, std::int32_t index = 0);
  absl::StatusOr<std::vector<RecipeId>> OfAll(absl::Span<PyObject* const> objects);
  RecipeId OfSize(BorrowedRef number);
  absl::StatusOr<RecipeId> OfFresh(BorrowedRef object);
  absl::StatusOr<RecipeId> OfSharded(BorrowedRef object);
  absl::StatusOr<RecipeId> OfTuple(BorrowedRef object);
  absl::StatusOr<RecipeId> OfSequence(BorrowedRef object, RecipeOp op);
  absl::StatusOr<RecipeId> OfDict(BorrowedRef object);
  absl::StatusOr<RecipeId> OfDictToCome(const Tracked& dict);
  absl::StatusOr<RecipeId> OfBuiltin(BorrowedRef object);
  absl::StatusOr<RecipeId> OfPartial(BorrowedRef object);
  absl::StatusOr<RecipeId> OfTemplate(BorrowedRef object);
  absl::StatusOr<RecipeId> OfSet(BorrowedRef object);
  absl::StatusOr<RecipeId> OfFunction(BorrowedRef object);
  absl::StatusOr<RecipeId> OfMethod(BorrowedRef object);
  absl::StatusOr<RecipeId> OfWeakref(BorrowedRef object);
  // Of a class derived from int, float or str, by the builtin's own __new__; kNoRecipe: an error.
  RecipeId NumberOrText(BorrowedRef object, RecipeId cls);
  absl::StatusOr<RecipeId> OfInstance(BorrowedRef object);
  absl::StatusOr<RecipeId> OfCell(BorrowedRef object);
  absl::Status FillCells();
  // A class made in the attempt, its namespace, and the descriptors that stand in one.
  absl::StatusOr<RecipeId> OfClass(BorrowedRef object);
  absl::StatusOr<RecipeId> OfNamespace(BorrowedRef cls);
  absl::StatusOr<RecipeId> OfWrapper(BorrowedRef object);
  // Own attributes of `object`, in order, for what was made of it; of a defaultdict its factory, too.
  absl::Status AddAttributes(BorrowedRef object, RecipeId made);
  absl::StatusOr<RecipeId> OfHandle(BorrowedRef object);  // of a hook that the frame put on a tensor
  absl::StatusOr<RecipeId> OfToken(BorrowedRef object);   // of a context variable
  absl::StatusOr<RecipeId> OfIterator(BorrowedRef object);
  absl::StatusOr<RecipeId> OfDictIterator(BorrowedRef object, BorrowedRef dict);

  Capture& capture_;
  RecipeProgram program_;
  std::vector<Ref> tensors_;
  ArrayRecipes arrays_;
  std::vector<SourceId> used_sources_;
  absl::flat_hash_map<PyObject*, RecipeId> known_;
  absl::flat_hash_map<SourceId, RecipeId> by_source_;
  std::vector<Ref> keep_alive_;
  absl::flat_hash_set<PyObject*> making_;  // classes that recipes are being made of
  std::vector<Ref> unfilled_;              // cells that are filled when these are made
  int depth_ = 0;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RECONSTRUCT_RECIPE_BUILDER_H_
