// SpecialMethods: the methods of a class that the language calls for attributes (__getattr__, __getattribute__,
// __setattr__, __delattr__), whatever object stands under the name: a function, a method of C code
// (`__getattr__ = dict.get`), an object that can be called.
// Invariant: what a class has of its own is never taken for the default of its native base.
#ifndef FRAMEFUSE_SYMBOLIC_PROTOCOLS_SPECIAL_METHODS_H_
#define FRAMEFUSE_SYMBOLIC_PROTOCOLS_SPECIAL_METHODS_H_

#include "absl/types/span.h"
#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class AttributeReads;
class BreakController;
class CallEvaluator;
class Journals;
class NativeBoundary;
class ObjectTable;
class ReadJournal;

class SpecialMethods {
 public:
  SpecialMethods(Journals& journals, AttributeReads& attributes, CallEvaluator& calls);

  // In place of the native base's; null: nothing.
  BorrowedRef OwnOf(PyTypeObject* type, BorrowedRef name);
  // `method` stands under `name` in the owner's class; it is bound to the owner as the language binds it.
  Value Call(Activation& act, ValueView owner, BorrowedRef method, BorrowedRef name, absl::Span<const ValueView> args,
             Completion completion);
  // The class's own __getattribute__, and its __getattr__ where that raises AttributeError.
  Value CallGetAttribute(Activation& act, ValueView owner, BorrowedRef getattribute, BorrowedRef name);

 private:
  BreakController& breaks_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  AttributeReads& attributes_;
  CallEvaluator& calls_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_PROTOCOLS_SPECIAL_METHODS_H_
