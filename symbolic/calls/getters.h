// Getters: operator.attrgetter and operator.methodcaller that C code calls (sorted(key=…), map). It would read the
// program's objects past capture. In their place it gets a Python function that does the same, whose frames are
// evaluated. Invariant: only callables that show nobody what they call get one (FF_CALLS in call_rules.def).
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_GETTERS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_GETTERS_H_

#include <vector>

#include "symbolic/evaluator/protocols.h"
#include "symbolic/rules/call_arguments.h"

namespace framefuse {

class BreakController;
class CallEvaluator;
class Journals;
class NativeBoundary;
class ObjectTable;
class ReadJournal;

class Getters {
 public:
  Getters(Journals& journals, CallEvaluator& calls);

  // `args` with functions in place of getters, which `made` keeps. Null where there are none and `args` will do.
  // False: the run does not go on.
  struct Replaced {
    std::vector<Value> made;
    ValueVector args;
  };
  [[nodiscard]] bool Replace(Activation& act, absl::Span<const ValueView> args, Replaced* replaced);

 private:
  Value FunctionFor(Activation& act, ValueView getter);

  BreakController& breaks_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  CallEvaluator& calls_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_GETTERS_H_
