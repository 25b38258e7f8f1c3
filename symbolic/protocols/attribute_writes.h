// AttributeWrites: attributes set and deleted, as CPython has it: __setattr__, data descriptors, then the instance's
// own attributes. Invariant: what is written to an object that existed before goes to its overlay.
#ifndef FRAMEFUSE_SYMBOLIC_PROTOCOLS_ATTRIBUTE_WRITES_H_
#define FRAMEFUSE_SYMBOLIC_PROTOCOLS_ATTRIBUTE_WRITES_H_

#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class AttributeReads;
class BackwardPhase;
class BreakController;
class CallEvaluator;
class ClassStatements;
class FxJournal;
class Journals;
class MadeClasses;
class NativeBoundary;
class ObjectContents;
class ObjectTable;
class ReadJournal;
class SpecialMethods;
class TensorAttributes;
class WriteJournal;
namespace tracing {
class Tracer;
}

class AttributeWrites {
 public:
  AttributeWrites(Journals& journals, ClassStatements& class_statements, SpecialMethods& special,
                  AttributeReads& attributes, TensorAttributes& tensor_attributes, CallEvaluator& calls);

  [[nodiscard]] bool StoreAttr(Activation& act, ValueView owner, BorrowedRef name, ValueView value);
  [[nodiscard]] bool DeleteAttr(Activation& act, ValueView owner, BorrowedRef name);
  [[nodiscard]] bool SetClassAttr(ValueView cls, BorrowedRef name, ValueView value);
  [[nodiscard]] bool GenericSetAttr(Activation& act, ValueView owner, BorrowedRef name, ValueView value);

 private:
  [[nodiscard]] bool SetThroughDescriptor(Activation& act, BorrowedRef descriptor, ValueView owner, BorrowedRef name,
                                          ValueView value);

  tracing::Tracer& tracer_;
  FxJournal& fx_;
  BreakController& breaks_;
  BackwardPhase& backward_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  ObjectContents& contents_;
  MadeClasses& made_;
  ClassStatements& class_statements_;
  SpecialMethods& special_;
  AttributeReads& attributes_;
  TensorAttributes& tensor_attributes_;
  CallEvaluator& calls_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_PROTOCOLS_ATTRIBUTE_WRITES_H_
