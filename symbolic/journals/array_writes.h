// Writes to arrays of numpy that the attempt made: numpy does them at once, on the very array.
// Invariant: all that is in such an array follows from guards, nothing but the attempt sees it, and no tensor has its
// memory. Every other array of numpy is never written by captured code.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_ARRAY_WRITES_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_ARRAY_WRITES_H_

#include "absl/types/span.h"
#include "symbolic/evaluator/value.h"

namespace framefuse {

class BreakController;
class FxJournal;
class NativeArguments;
class NativeBoundary;
class ObjectTable;

struct ArrayWriter {
  FxJournal& fx;
  BreakController& breaks;
  NativeBoundary& boundary;
  const ObjectTable& objects;
  NativeArguments& arguments;

  // `function`: of the module operator; it writes the first operand. Null: it raised, or the graph breaks.
  Value Write(BorrowedRef function, absl::Span<const ValueView> operands) const;
};

// Made by the attempt, and no part of what it did not make.
bool IsOwnArray(const ObjectTable& objects, BorrowedRef array);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_ARRAY_WRITES_H_
