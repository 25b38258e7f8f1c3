// SuperAttributes: attributes of super(), whose look-up goes on behind a class in the order of another one's bases.
// Invariant: the order of the bases is guarded, and so is each look-up on the way.
#ifndef FRAMEFUSE_SYMBOLIC_PROTOCOLS_SUPER_ATTRIBUTES_H_
#define FRAMEFUSE_SYMBOLIC_PROTOCOLS_SUPER_ATTRIBUTES_H_

#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class AttributeReads;
class BreakController;
class CallEvaluator;
class Journals;
class NativeBoundary;
class ObjectTable;
class ReadJournal;
class WriteJournal;

class SuperAttributes {
 public:
  SuperAttributes(Journals& journals, AttributeReads& attributes, CallEvaluator& calls);

  Value GetAttr(Activation& act, ValueView super_object, BorrowedRef name);
  // LOAD_SUPER_ATTR: super(cls, self).name, or super().name, without an object in between.
  Value Load(Activation& act, ValueView global_super, ValueView cls, ValueView self, BorrowedRef name,
             bool two_argument);

 private:
  BreakController& breaks_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  AttributeReads& attributes_;
  CallEvaluator& calls_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_PROTOCOLS_SUPER_ATTRIBUTES_H_
