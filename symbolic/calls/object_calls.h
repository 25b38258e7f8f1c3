// ObjectCalls: calls of instances with __call__, of partials, weak references and the callables of module operator, and
// CALL_FUNCTION_EX.
// Invariant: their parts are read with sources where the object existed before.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_OBJECT_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_OBJECT_CALLS_H_

#include "symbolic/evaluator/protocols.h"
#include "symbolic/journals/tracked.h"

namespace framefuse {

class BreakController;
class FrameStack;
class CachedCalls;
class CallEvaluator;
class Journals;
class NativeArguments;
class NativeBoundary;
class NativeCalls;
class NativeProtocols;
class ObjectContents;
class ObjectTable;
class ReadJournal;
class WriteJournal;

class ObjectCalls {
 public:
  ObjectCalls(Journals& journals, NativeProtocols& native, Protocols& meaning, CallEvaluator& calls,
              NativeCalls& natives, CachedCalls& cached);

  Value CallInstance(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames,
                     Completion completion);
  Value CallEx(Activation& act, ValueView callable, ValueView args, ValueView kwargs);

 private:
  Value CallPartial(Activation& act, ValueView partial, absl::Span<const ValueView> args, BorrowedRef kwnames);
  Value CallScripted(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  Value CallMethodCaller(Activation& act, ValueView caller, absl::Span<const ValueView> args, BorrowedRef kwnames);
  Value CallAttrGetter(Activation& act, ValueView getter, absl::Span<const ValueView> args, BorrowedRef kwnames);

  const FrameStack& frames_;
  BreakController& breaks_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  ObjectContents& contents_;
  NativeArguments& arguments_;
  NativeProtocols& native_;
  Protocols& meaning_;
  CallEvaluator& calls_;
  NativeCalls& natives_;
  CachedCalls& cached_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_OBJECT_CALLS_H_
