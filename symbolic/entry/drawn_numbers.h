// Drawn numbers: what an entry draws from generators of Python's and numpy's before its plan runs, in the order of the
// program. The graph gets each number as a tensor without dimensions, out of which it reads the symbol.
// Invariant: where Python runs the frame instead, the generators are as they were before the entry. All needs the GIL.
#ifndef FRAMEFUSE_SYMBOLIC_ENTRY_DRAWN_NUMBERS_H_
#define FRAMEFUSE_SYMBOLIC_ENTRY_DRAWN_NUMBERS_H_

#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "frame_eval/ref.h"
#include "symbolic/entry/entry_sizes.h"
#include "symbolic/entry/recipe.h"
#include "symbolic/rules/generator_state.h"

namespace framefuse {

struct DrawnNumber {
  struct Argument {
    Ref value;                            // null: a number that changes
    ir::ExprId expression = ir::kNoExpr;  // what that is
  };
  RecipeId generator = kNoRecipe;  // of a source
  Ref method;                      // of its class
  std::vector<Argument> arguments;
  Ref names;  // of the last ones; null: none has a name
  bool is_float = false;
  int input = -1;  // of the plan; -1: it computes nothing with it
};

// A number that a generator has drawn: exactly an int that torch takes, or a float. Null: it drew something else.
Ref TensorOfDrawn(BorrowedRef drawn, bool* is_float);
// What a method of the generator's class gives.
Ref CallMethodOf(BorrowedRef generator, BorrowedRef method, absl::Span<const Ref> arguments, BorrowedRef names);

class DrawsOfCall {
 public:
  // False: a Python error is set, and the generators are as before.
  bool Draw(absl::Span<const DrawnNumber> all, absl::Span<const Ref> registers, const SizeValues& sizes);
  // The numbers of the inputs of the plan stand there for others.
  void PutInto(absl::Span<Ref> held, absl::Span<PyObject*> arguments) const;
  void Undo();

 private:
  bool DrawOne(const DrawnNumber& number, BorrowedRef generator, const SizeValues& sizes);

  std::vector<GeneratorState> states_;
  std::vector<std::pair<int, Ref>> tensors_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ENTRY_DRAWN_NUMBERS_H_
