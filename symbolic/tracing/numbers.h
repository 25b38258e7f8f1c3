// Numbers: Python integers and floats that stand for symbolic numbers. Each is an object of its own with the value at
// hand, so that code which does not know of it sees a plain number. It is known by identity: whoever looks at its value
// pins it first; whoever only moves it need not know.
// Torch gets a SymInt or SymFloat in its place, and what torch gives back becomes such an object again.
// Invariant: none of them outlives the attempt; a recipe makes another one of each (symbolic/entry/recipe.h).
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_NUMBERS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_NUMBERS_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "backends/graph/dim.h"
#include "frame_eval/ref.h"
#include "symbolic/tracing/number_functions.h"

namespace framefuse::tracing {

class Recorder;
class Sizes;

enum class SizeArithmetic : std::uint8_t { kAdd, kSubtract, kMultiply, kFloorDivide, kModulo, kTrueDivide, kPower };

class Numbers {
 public:
  explicit Numbers(const std::unique_ptr<Recorder>& recorder) : recorder_(recorder) {}
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  bool none() const { return known_.empty(); }
  bool IsSymbolic(BorrowedRef object) const { return !known_.empty() && known_.contains(object.get()); }
  // It, or one that a tuple (a torch.Size, say) or a slice holds.
  bool Holds(BorrowedRef object) const;
  // Of the number; a plain one is a constant. Nothing: it is none, or an integer that does not fit.
  std::optional<ir::Dim> Find(BorrowedRef object) const;
  Ref Make(ir::Dim d);
  // `original`: a number of the program's own, which `d` stands for.
  Ref MakeOf(BorrowedRef original, ir::Dim d);
  BorrowedRef OriginalOf(BorrowedRef object) const;  // null: it was computed
  void Pin(BorrowedRef object);                      // all that it holds

  // Of two numbers, one of which is symbolic. Null without an error: it is not kept symbolic.
  Ref Combine(SizeArithmetic operation, BorrowedRef left, BorrowedRef right);
  Ref Negate(BorrowedRef object);
  Ref ToFloat(BorrowedRef object);
  Ref Apply(NumberFunction function, BorrowedRef object);  // null: as above
  // One of backends/graph/float_functions.def, of one number or two. Null: as above.
  Ref Apply(ir::ExprKind function, BorrowedRef left, BorrowedRef right = BorrowedRef());
  // max() or min() of two floats, or of two integers that are no sizes. Null: of others, which are compared.
  Ref Extreme(bool largest, BorrowedRef left, BorrowedRef right);
  Ref Absolute(BorrowedRef object);  // null: as above
  // As Py_LT …; nothing: one of them is no number, or it is not kept symbolic.
  std::optional<bool> Compare(int py_op, BorrowedRef left, BorrowedRef right);

  // A tensor of no dimensions that an operator of a fake takes as it would take the symbolic `number`; null: it is
  // none.
  Ref TensorFor(BorrowedRef number);

  // With SymInts and SymFloats in the places of symbolic numbers, in tuples, lists and slices too; null: there are
  // none.
  Ref ToTorch(BorrowedRef object) const;
  Ref FromTorch(Ref object);

  // A random number: code that compares it goes another way in each call, so that it is not kept symbolic.
  void NoteDrawn(BorrowedRef number);

  void Clear() { known_.clear(); }
  Sizes& sizes() const;  // of the recording that they belong to

 private:
  struct Known {
    Ref object;
    ir::Dim dim;
    Ref original;
    mutable Ref node;  // of a float: torch's object for its node, once it was asked for
  };
  Ref FloatToTorch(const Known& known) const;
  Ref SequenceToTorch(BorrowedRef sequence) const;
  std::optional<ir::Dim> CombineFloats(SizeArithmetic operation, ir::Dim a, ir::Dim b);

  const std::unique_ptr<Recorder>& recorder_;
  absl::flat_hash_map<PyObject*, Known> known_;
  absl::flat_hash_set<ir::SymbolIndex> drawn_;
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_NUMBERS_H_
