// MissingAttributes: attributes that only __getattr__ finds. For torch.nn.Module's own, which every parameter and
// submodule is read through, it looks where that function does, with the guards that its instructions would leave.
// Invariant: where it does not know, the function itself is called.
#ifndef FRAMEFUSE_SYMBOLIC_PROTOCOLS_MISSING_ATTRIBUTES_H_
#define FRAMEFUSE_SYMBOLIC_PROTOCOLS_MISSING_ATTRIBUTES_H_

#include <optional>

#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class BreakController;
class Journals;
class ObjectContents;
class ObjectTable;
class ReadJournal;
class SpecialMethods;

class MissingAttributes {
 public:
  MissingAttributes(Journals& journals, SpecialMethods& special);

  Value CallMissingHook(Activation& act, ValueView owner, BorrowedRef name);

 private:
  std::optional<Value> MemberOfModule(ValueView module, BorrowedRef name);

  BreakController& breaks_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  ObjectContents& contents_;
  SpecialMethods& special_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_PROTOCOLS_MISSING_ATTRIBUTES_H_
