// ArrayInputs: arrays of numpy from outside of which a capture reads type, sizes and layout, and no number: the entry
// hands them to numpy as they are. So it takes those whose numbers a later call had otherwise, and large ones.
// Invariant: behind the first one no input of the graph is written, which may have the memory of an array.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_ARRAY_INPUTS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_ARRAY_INPUTS_H_

#include "symbolic/evaluator/value.h"
#include "symbolic/journals/capture_position.h"

namespace framefuse {

class BackwardPhase;
class FrameStack;
class Journals;
class ObjectTable;
class ReadJournal;
class Symbols;

class ArrayInputs {
 public:
  explicit ArrayInputs(Journals& journals);

  // If it is such an array, or a list of some. What follows from its numbers is not known from then on.
  void Take(ValueView operand);
  // Whether the array is from outside, and guarded to have the type, the sizes and the layout that it has.
  bool GuardLayout(BorrowedRef array);
  // Whether this capture may rely on what is in such an array: a number is read, and the values are few.
  bool MayRelyOn(BorrowedRef array) const;

 private:
  void TakeOne(BorrowedRef array);

  const CaptureOptions& options_;
  FrameStack& frames_;
  BackwardPhase& backward_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  Symbols& symbols_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_ARRAY_INPUTS_H_
