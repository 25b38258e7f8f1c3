// ListingCalls: dir() of an object whose class has a __dir__ in Python: the names that it gives, sorted. What C code's
// own __dir__ lists depends on all names of the object's classes, which no guard compares. Invariant: anything but a
// method written in Python breaks.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_LISTING_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_LISTING_CALLS_H_

#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class BreakController;
class CallEvaluator;
class Journals;
class ObjectTable;
class ReadJournal;

class ListingCalls {
 public:
  ListingCalls(Journals& journals, CallEvaluator& calls);

  Value CallDir(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);

 private:
  BreakController& breaks_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  CallEvaluator& calls_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_LISTING_CALLS_H_
