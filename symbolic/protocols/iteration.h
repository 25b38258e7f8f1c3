// Iteration: iterators made and stepped, generators sent to, sequences unpacked.
// Invariant: native code that iterates reads only what is guarded.
#ifndef FRAMEFUSE_SYMBOLIC_PROTOCOLS_ITERATION_H_
#define FRAMEFUSE_SYMBOLIC_PROTOCOLS_ITERATION_H_

#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class BreakController;
class CallEvaluator;
class Journals;
class NativeArguments;
class NativeBoundary;
class NativeProtocols;
class ObjectTable;
class ReadJournal;

class Iteration {
 public:
  Iteration(Journals& journals, NativeProtocols& native, CallEvaluator& calls);

  [[nodiscard]] bool GuardIterable(Activation&, ValueView v, const char* what);
  Value GetIter(Activation& act, ValueView v);
  Value GetYieldFromIter(Activation& act, ValueView v);
  ForIterOutcome ForIter(Activation& act, ValueView iterator, Value* item);
  SendOutcome Send(Activation& act, ValueView receiver, ValueView sent, Value* result);
  [[nodiscard]] bool UnpackSequence(Activation& act, ValueView v, absl::Span<Value> out);
  [[nodiscard]] bool UnpackEx(Activation& act, ValueView v, int before, int after, absl::Span<Value> out);
  Value NextOf(Activation& act, absl::Span<const ValueView> args);

 private:
  bool IsOfAResumedLoop(const Activation& act, SourceId source) const;

  BreakController& breaks_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  NativeArguments& arguments_;
  NativeProtocols& native_;
  CallEvaluator& calls_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_PROTOCOLS_ITERATION_H_
