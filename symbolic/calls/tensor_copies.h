// TensorCopies: deep copies of tensors, whose method in Python stands for torch's (framefuse/_compat.py).
// Invariant: the graph takes a copy of the values only where guards say that torch would copy no more.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_TENSOR_COPIES_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_TENSOR_COPIES_H_

#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class BreakController;
class Journals;
class ObjectTable;
class ReadJournal;
namespace tracing {
class Tracer;
}

class TensorCopies {
 public:
  explicit TensorCopies(Journals& journals);

  // None, or a break.
  Value Check(absl::Span<const ValueView> args);

 private:
  bool HasAttributes(BorrowedRef tensor);

  tracing::Tracer& tracer_;
  BreakController& breaks_;
  ReadJournal& reads_;
  ObjectTable& objects_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_TENSOR_COPIES_H_
