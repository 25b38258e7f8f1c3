// SignatureCalls: inspect.signature of functions of the program, which the library's own code reads.
// Invariant: whatever a signature says has a guard, and the program gets hold of no mutable object through it.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_SIGNATURE_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_SIGNATURE_CALLS_H_

#include "symbolic/evaluator/value.h"
#include "symbolic/journals/tracked.h"

namespace framefuse {

class BreakController;
class Journals;
class NativeCalls;
class ObjectTable;
class ReadJournal;

class SignatureCalls {
 public:
  SignatureCalls(Journals& journals, NativeCalls& natives);

  // `of_library`: library code asks, which binds arguments and looks no further.
  Value SignatureOf(ValueView callable, ValueView function, bool of_library);

 private:
  Value InitOf(PyTypeObject* cls);
  // `source`: kNoSource of a function that was made in the frame.
  bool MayAsk(BorrowedRef function, SourceId source, bool of_library);
  void GuardFunction(BorrowedRef function, SourceId source);
  [[nodiscard]] bool GuardAnnotations(BorrowedRef function, SourceId of);

  BreakController& breaks_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  NativeCalls& natives_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_SIGNATURE_CALLS_H_
