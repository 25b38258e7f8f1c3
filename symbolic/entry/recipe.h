// Recipe: how a live value of an attempt is rebuilt when an entry runs. A RecipeProgram is a list of steps in
// order of dependence; step i's result is register i. Fresh objects are rebuilt, objects that existed before are
// taken from their sources, tensors from the plan's outputs.
// Invariant: identity is kept: one object of the attempt is one register. Immutable once made; owned by the entry.
#ifndef FRAMEFUSE_SYMBOLIC_ENTRY_RECIPE_H_
#define FRAMEFUSE_SYMBOLIC_ENTRY_RECIPE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "frame_eval/ref.h"
#include "guards/guard.h"
#include "guards/held.h"
#include "symbolic/entry/entry_sizes.h"

namespace framefuse {

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
  kInstanceDict,  // the __dict__ of the child: raw, without user code
  kCall,          // callable `object`, children are positional arguments (rebuilding by __reduce__)
  kNumpy,         // the same, of a function of numpy
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

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ENTRY_RECIPE_H_
