// numpy_operations: what keeps numbers of numpy's symbolic that are given to the program (numpy.int64, numpy.float64):
// arithmetic, comparisons, int() and float(). A result is of the type that numpy gives for the numbers at hand.
// Torch's operators take such a number as Python's of its value.
// Invariant: what numpy would warn of, and what it rounds in another way than doubles, is left to numpy, and pinned.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_NUMPY_OPERATIONS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_NUMPY_OPERATIONS_H_

#include <optional>

#include "symbolic/evaluator/value.h"
#include "symbolic/tracing/numbers.h"

namespace framefuse {

class ReadJournal;

bool IsOfNumpy(const tracing::Numbers& numbers, BorrowedRef number);  // and symbolic
Ref PlainNumberOf(tracing::Numbers& numbers, BorrowedRef number);     // as Python's, of one that is not symbolic, too
// Null: none of them is a symbolic number of numpy's, or it is left to numpy.
Ref CombineOfNumpy(tracing::Numbers& numbers, ReadJournal& reads, tracing::SizeArithmetic operation, ValueView left,
                   ValueView right);
Ref NegateOfNumpy(tracing::Numbers& numbers, ValueView number);
std::optional<bool> CompareOfNumpy(tracing::Numbers& numbers, ReadJournal& reads, int py_op, ValueView left,
                                   ValueView right);
// Torch makes tensors of the types that numpy's numbers have there, and not of their values alone.
bool TellsTypesOfNumbers(BorrowedRef callable);
void PinNumpyIn(tracing::Numbers& numbers, BorrowedRef object);  // and in containers

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_NUMPY_OPERATIONS_H_
