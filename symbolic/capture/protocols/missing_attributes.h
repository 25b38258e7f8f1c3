// MissingAttributes: attributes that only __getattr__ finds. For torch.nn.Module's own, which every parameter and
// submodule is read through, it looks where that function does, with the guards that its instructions would leave.
// Invariant: where it does not know, the function itself is called.
#ifndef FRAMEFUSE_SYMBOLIC_CAPTURE_PROTOCOLS_MISSING_ATTRIBUTES_H_
#define FRAMEFUSE_SYMBOLIC_CAPTURE_PROTOCOLS_MISSING_ATTRIBUTES_H_

#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class BreakController;
class CallEvaluator;
class Journals;
class ObjectContents;
class ObjectTable;
class ReadJournal;

class MissingAttributes {
 public:
  MissingAttributes(Journals& journals, CallEvaluator& calls);

  Value CallMissingHook(Activation& act, ValueView owner, BorrowedRef name);

 private:
  Value MemberOfModule(ValueView module, BorrowedRef name);

  BreakController& breaks_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  ObjectContents& contents_;
  CallEvaluator& calls_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CAPTURE_PROTOCOLS_MISSING_ATTRIBUTES_H_
