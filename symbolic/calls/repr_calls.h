// ReprCalls: a __repr__ that the standard library guards against recursion (reprlib.recursive_repr, a dataclass's own).
// The library notes the addresses of the objects under way; capture notes the objects themselves.
// Invariant: none was under way when the frame was called, in this thread or another: a guard says so.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_REPR_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_REPR_CALLS_H_

#include <optional>
#include <utility>
#include <vector>

#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class BreakController;
class CallEvaluator;
class Journals;
class ObjectContents;
class ObjectTable;
class ReadJournal;

class ReprCalls {
 public:
  ReprCalls(Journals& journals, CallEvaluator& calls);

  // `wrapper`: the guarded __repr__, a function of one argument.
  Value Call(Activation& act, ValueView wrapper, ValueView self);

 private:
  std::optional<Value> InClosure(ValueView wrapper, const char* name);

  BreakController& breaks_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  ObjectContents& contents_;
  CallEvaluator& calls_;
  std::vector<std::pair<BorrowedRef, BorrowedRef>> under_way_;  // functions and their arguments
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_REPR_CALLS_H_
