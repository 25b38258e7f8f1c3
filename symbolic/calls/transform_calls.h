// TransformCalls: torch.func's transforms over functions of the program, levels of forward-mode differentiation, and
// torch function modes. Torch's own code of
// a transform runs as it is, on fakes: it reads its arguments only. The frames of the program's function that it calls
// are evaluated. Invariant: torch's decompositions are loaded before the first transform, and not under it.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_TRANSFORM_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_TRANSFORM_CALLS_H_

#include "symbolic/evaluator/protocols.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {

class BackwardPhase;
class BreakController;
class FunctionModes;
class FxJournal;
class Journals;
class NativeCalls;
class ReadJournal;
struct CaptureOptions;

class TransformCalls {
 public:
  TransformCalls(Journals& journals, NativeCalls& natives);

  Value CallTransformation(Activation& act, BorrowedRef function, absl::Span<const ValueView> args,
                           BorrowedRef kwnames);
  Value CallOfInferenceMode(absl::Span<const ValueView> args);
  Value CallOfFunctionModes(SpecialCall which, ValueView callable, absl::Span<const ValueView> args,
                            BorrowedRef kwnames);
  Value CallOfDualLevels(SpecialCall which, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);

 private:
  FunctionModes& modes_;
  FxJournal& fx_;
  BreakController& breaks_;
  BackwardPhase& backward_;
  ReadJournal& reads_;
  const CaptureOptions& options_;
  NativeCalls& natives_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_TRANSFORM_CALLS_H_
