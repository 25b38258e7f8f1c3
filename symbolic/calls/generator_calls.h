// Calls of sum(), max(), min() and math.prod() on a generator that yields numbers: it is run to its end, and what it
// yields is summed up as a tuple of numbers would be, so that symbolic ones stay symbolic. Invariant: an item that is
// no plain number is given to the C code itself, behind those that went before, which nobody can tell apart.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_GENERATOR_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_GENERATOR_CALLS_H_

#include <optional>

#include "absl/types/span.h"
#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class CallEvaluator;
class NativeBoundary;
class ObjectTable;
class ReadJournal;
class SizeOperations;

struct GeneratorCalls {
  CallEvaluator& calls;
  NativeBoundary& boundary;
  ReadJournal& reads;
  ObjectTable& objects;
  SizeOperations& sizes;

  // Nothing: another call.
  std::optional<Value> Call(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_GENERATOR_CALLS_H_
