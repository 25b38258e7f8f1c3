// ClassCalls: calls of classes, as type.__call__ has it, with capture's own step over __new__ and __init__.
// Invariant: an object of a class with __del__ is never made.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_CLASS_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_CLASS_CALLS_H_

#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class BreakController;
class CallEvaluator;
class Journals;
class NativeArguments;
class NativeBoundary;
class NativeCalls;
class ObjectTable;
class ReadJournal;
class WriteJournal;

class ClassCalls {
 public:
  ClassCalls(Journals& journals, CallEvaluator& calls, NativeCalls& natives);

  Value CallType(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames,
                 Completion completion);
  // type.__call__ itself, as a metaclass's own __call__ asks for it.
  Value CallPastMetaclass(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);

 private:
  Value MakeObject(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames,
                   Completion completion);
  Value MakeWeakref(ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  Value NewByBuiltin(PyTypeObject* type, absl::Span<const ValueView> args, BorrowedRef kwnames);
  Value Initialise(Activation& act, Value object, absl::Span<const ValueView> args, BorrowedRef kwnames,
                   Completion completion);

  BreakController& breaks_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  NativeArguments& arguments_;
  CallEvaluator& calls_;
  NativeCalls& natives_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_CLASS_CALLS_H_
