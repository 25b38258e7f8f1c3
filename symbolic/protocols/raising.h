// Raising: exceptions raised, matched and handled.
// Invariant: an exception's context is known: none is caught while one from outside the attempt is being handled.
#ifndef FRAMEFUSE_SYMBOLIC_PROTOCOLS_RAISING_H_
#define FRAMEFUSE_SYMBOLIC_PROTOCOLS_RAISING_H_

#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class BreakController;
class CallEvaluator;
class FrameStack;
class Journals;
class NativeArguments;
class NativeBoundary;
class NativeProtocols;
class ObjectTable;
class ReadJournal;

class Raising {
 public:
  Raising(Journals& journals, NativeProtocols& native, CallEvaluator& calls);

  Truth ExceptionMatches(Activation& act, ValueView exception, ValueView type);
  [[nodiscard]] bool ExceptionGroupMatch(Activation& act, ValueView exception, ValueView type, Value* match,
                                         Value* rest);
  Value PrepareReraiseStar(Activation& act, ValueView original, ValueView results);
  [[nodiscard]] bool BeforeHandling(Activation& act);
  [[nodiscard]] bool AfterHandling(Activation&, ValueView previous);
  void Raise(Activation& act, ValueView exception, ValueView cause);

 private:
  const FrameStack& frames_;
  BreakController& breaks_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  NativeArguments& arguments_;
  NativeProtocols& native_;
  CallEvaluator& calls_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_PROTOCOLS_RAISING_H_
