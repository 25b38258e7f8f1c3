// CallEvaluator: the call protocol. It steps over CPython's trampolines (bound methods, types, __call__, partial)
// itself, inlines Python functions through CPython's own call, and lets C code run only if a rule lists it
// (call_rules.def). Each kind of callable has a class of its own, which it owns. Invariant: leaves keep their sources
// in positional arguments of Python functions only; all others are consumed.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_CALL_EVALUATOR_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_CALL_EVALUATOR_H_

#include "symbolic/calls/autograd_calls.h"
#include "symbolic/calls/builtin_calls.h"
#include "symbolic/calls/cached_calls.h"
#include "symbolic/calls/class_calls.h"
#include "symbolic/calls/method_calls.h"
#include "symbolic/calls/module_calls.h"
#include "symbolic/calls/native_calls.h"
#include "symbolic/calls/object_calls.h"
#include "symbolic/calls/repr_calls.h"
#include "symbolic/evaluator/protocols.h"
#include "symbolic/journals/size_operations.h"

namespace framefuse {

class AttributeReads;
class AttributeWrites;
class BreakController;
class ClassStatements;
class FrameEntry;
class Iteration;
class Journals;
class MadeClasses;
class NativeArguments;
class NativeBoundary;
class NativeProtocols;
class ObjectTable;
class ReadJournal;
class TensorAttributes;
class TextConversion;

// The frame runs this function: a substitute that calls what it stands for means just that.
bool IsFrameOf(const Activation& act, BorrowedRef function);

class CallEvaluator {
 public:
  CallEvaluator(Journals& journals, ClassStatements& class_statements, FrameEntry& entry, Protocols& meaning,
                AttributeReads& attributes, NativeProtocols& native, TensorAttributes& tensor_attributes,
                AttributeWrites& attribute_writes, Iteration& iteration, TextConversion& text);

  Value Call(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  Value CallWith(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames,
                 Completion completion);
  Value CallFunction(Activation& act, ValueView function, absl::Span<const ValueView> args, BorrowedRef kwnames,
                     Completion completion, Ref pending = nullptr);

  Value CallEx(Activation& act, ValueView callable, ValueView args, ValueView kwargs);
  Value MakeException(Activation& act, ValueView type);  // as raise does of a class
  Value IsInstance(Activation& act, ValueView object, ValueView type);

  // A deep copy is under way that made its memo.
  bool has_memo() const { return has_memo_; }
  AutogradCalls& autograd() { return autograd_; }

 private:
  // Done otherwise than by its instructions; nothing: it is not.
  std::optional<Value> CallKnown(Activation& act, KnownFunction known, BorrowedRef function,
                                 absl::Span<const ValueView> args, BorrowedRef kwnames);
  Value CallDisabled(Activation& act, ValueView function, absl::Span<const ValueView> args, BorrowedRef kwnames,
                     Completion completion);
  Value CallByRule(Activation& act, const CallRule& rule, ValueView callable, absl::Span<const ValueView> args,
                   BorrowedRef kwnames);
  // A call of what moves the items of its arguments, and looks at none.
  Value MoveInto(ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  Value CallBoundMethod(Activation& act, ValueView method, absl::Span<const ValueView> args, BorrowedRef kwnames,
                        Completion completion);
  bool IsInlined(BorrowedRef function) const;  // one of torch's that otherwise run as one call
  bool SeesMemo(Activation& act, PyCodeObject* code, absl::Span<const ValueView> args) const;
  Value CallBuiltinOfType(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  Value CallBuiltin(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);

  BreakController& breaks_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  NativeArguments& arguments_;
  MadeClasses& made_;
  ClassStatements& class_statements_;
  FrameEntry& entry_;
  SizeOperations sizes_;
  NativeCalls natives_;
  AutogradCalls autograd_;
  ModuleCalls modules_;
  ClassCalls types_;
  CachedCalls cached_;
  ObjectCalls instances_;
  MethodCalls methods_;
  ReprCalls reprs_;
  BuiltinCalls builtins_;
  absl::Span<const RefOf<PyCodeObject>> inlined_;
  bool has_memo_ = false;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_CALL_EVALUATOR_H_
