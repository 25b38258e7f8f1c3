// Reductions: object.__reduce_ex__ and object.__getstate__, by which copies and pickles take an object apart. What
// their C code asks the object and its class is captured, and what it does with the answers is done here. Invariant:
// objects with slots, arguments for __new__ or C state other than a list's or dict's items are the caller's to refuse.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_REDUCTIONS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_REDUCTIONS_H_

#include <optional>

#include "absl/types/span.h"
#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class AttributeReads;
class BreakController;
class CallEvaluator;
class Journals;
class MadeClasses;
class NativeBoundary;
class ObjectContents;
class ObjectTable;
class ReadJournal;
class WriteJournal;

class Reductions {
 public:
  Reductions(Journals& journals, AttributeReads& attributes, CallEvaluator& calls);

  // Nothing: not so, or broke.
  std::optional<Value> Call(Activation& act, ValueView method, absl::Span<const ValueView> args);

 private:
  Value ReduceSet(Activation& act, ValueView self);
  std::optional<Value> ReduceEx(Activation& act, ValueView method, ValueView self);
  std::optional<Value> StateOf(Activation& act, ValueView self);
  std::optional<Value> OwnState(ValueView self);
  bool HasNoSlots(PyTypeObject* type);

  BreakController& breaks_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  ObjectContents& contents_;
  MadeClasses& made_;
  AttributeReads& attributes_;
  CallEvaluator& calls_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_REDUCTIONS_H_
