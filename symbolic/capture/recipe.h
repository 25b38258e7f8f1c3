// Recipe: how a live value of an attempt is rebuilt when an entry runs. A RecipeProgram is a list of steps in
// order of dependence; step i's result is register i. Fresh objects are rebuilt, objects that existed before are
// taken from their sources, tensors from the plan's outputs.
// Invariant: identity is kept: one object of the attempt is one register. Immutable once made; owned by the entry.
#ifndef FRAMEFUSE_SYMBOLIC_CAPTURE_RECIPE_H_
#define FRAMEFUSE_SYMBOLIC_CAPTURE_RECIPE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "frame_eval/ref.h"
#include "guards/guard.h"
#include "guards/held.h"
#include "symbolic/capture/entry_sizes.h"

namespace framefuse {

class Capture;

using RecipeId = std::int32_t;
inline constexpr RecipeId kNoRecipe = -1;

enum class RecipeOp : std::uint8_t {
  kConstant,      // object
  kSource,        // the value of source `index`
  kTensor,        // output `index` of the plan
  kSize,          // the value of the entry's size expression `index`
  kTuple,         // children
  kTupleOf,       // type `object`, children (namedtuple, torch.Size …)
  kList,          // made empty; children are filled in by kFillList
  kDict,          // type `object`, made empty; filled by kFillDict
  kSet,           // type and table of the set `object`; children, in its order
  kDeque,         // (maxlen), made empty; filled by kFillList
  kSlice,         // start, stop, step
  kCell,          // made empty; filled by kFillCell
  kInstance,      // object.__new__(type `object`, or the child), without __init__; filled by kSetAttr
  kFunction,      // children: code, globals, defaults|kNoRecipe, kwdefaults|…, closure|…, annotations|…,
                  // qualified name, kFunctionTexts|…, __annotate__|…
  kMethod,        // function, self
  kGetAttr,       // getattr(child, name `object`) of a builtin: its bound C method
  kCall,          // callable `object`, children are positional arguments (rebuilding by __reduce__)
  kDictIterator,  // iter(child.`object`()) after `index` items
  kFillList,      // child 0 extended by the rest
  kFillDict,      // child 0; then key, value pairs
  kFillCell,      // cell, contents
  kSetAttr,       // object, value; name or member descriptor `object`: raw, without user code
  kSetState,      // object.__setstate__(child): iterators
};

struct RecipeStep {
  RecipeOp op = RecipeOp::kConstant;
  std::int32_t index = 0;
  Held object;
  std::vector<RecipeId> children;
};

class RecipeProgram {
 public:
  // Takes references to the sources' values, before anything else runs that might check the same guards.
  void Load(const ResolvedSources& sources, std::vector<Ref>* registers) const;
  // Runs the other steps. `tensors` are the plan's outputs as Python objects.
  // False: a Python error is set (out of memory, or a bug of ours).
  bool Run(absl::Span<const Ref> tensors, const SizeValues& sizes, std::vector<Ref>* registers) const;
  const std::vector<RecipeStep>& steps() const { return steps_; }

 private:
  friend class RecipeBuilder;
  std::vector<RecipeStep> steps_;
};

// What a program may give a function that it made, in the order of a recipe's last children.
inline constexpr std::array<const char*, 4> kFunctionTexts = {"__name__", "__doc__", "__module__", "__type_params__"};

// Makes recipes from live objects at the end of an attempt.
class RecipeBuilder {
 public:
  explicit RecipeBuilder(Capture& capture) : capture_(capture) {}
  // The recipe of an object that the evaluator holds; an unconsumed leaf keeps its source. The status is a
  // graph break (kNoRecipe) that names the value's type.
  absl::StatusOr<RecipeId> Of(BorrowedRef object, SourceId source = kNoSource);
  absl::StatusOr<RecipeId> OfElement(BorrowedRef element);  // of a set
  // Whether the entry has the object when it has run: it existed before, or there is a recipe of it by now.
  bool Outlives(BorrowedRef object) const;
  RecipeId Constant(BorrowedRef object, bool element = false);
  RecipeId FromSource(SourceId source);
  // The output of the graph that a fake stands for.
  int OutputOf(BorrowedRef fake);
  RecipeId PlanOutput(int index) { return Add(RecipeOp::kTensor, {}, nullptr, index); }

  RecipeProgram Finish() &&;
  const std::vector<Ref>& tensors() const { return tensors_; }  // fakes, by output index
  const std::vector<SourceId>& sources() const { return used_sources_; }

 private:
  RecipeId Add(RecipeOp op, std::vector<RecipeId> children, BorrowedRef object = nullptr, std::int32_t index = 0);
  absl::StatusOr<std::vector<RecipeId>> OfAll(absl::Span<PyObject* const> objects);
  RecipeId OfSize(BorrowedRef number);
  absl::StatusOr<RecipeId> OfFresh(BorrowedRef object);
  absl::StatusOr<RecipeId> OfSharded(BorrowedRef object);
  absl::StatusOr<RecipeId> OfTuple(BorrowedRef object);
  absl::StatusOr<RecipeId> OfSequence(BorrowedRef object, RecipeOp op);
  absl::StatusOr<RecipeId> OfDict(BorrowedRef object);
  absl::StatusOr<RecipeId> OfBuiltin(BorrowedRef object);
  absl::StatusOr<RecipeId> OfPartial(BorrowedRef object);
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
  // Own attributes of `object`, in order, for what was made of it.
  absl::Status AddAttributes(BorrowedRef object, RecipeId made);
  absl::StatusOr<RecipeId> OfToken(BorrowedRef object);  // of a context variable
  absl::StatusOr<RecipeId> OfIterator(BorrowedRef object);
  absl::StatusOr<RecipeId> OfDictIterator(BorrowedRef object, BorrowedRef dict);

  Capture& capture_;
  RecipeProgram program_;
  std::vector<Ref> tensors_;
  std::vector<SourceId> used_sources_;
  absl::flat_hash_map<PyObject*, RecipeId> known_;
  absl::flat_hash_map<SourceId, RecipeId> by_source_;
  std::vector<Ref> keep_alive_;
  absl::flat_hash_set<PyObject*> making_;  // classes that recipes are being made of
  std::vector<Ref> unfilled_;              // cells that are filled when these are made
  int depth_ = 0;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CAPTURE_RECIPE_H_
