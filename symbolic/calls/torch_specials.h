// TorchSpecials: functions of torch and of framefuse that capture does itself (family kTorch in special_calls.def). It
// owns what calls their functions as captured code: branches of cond and checkpoint, transforms of torch.func.
// Invariant: wrong arguments go to the function itself, which raises.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_TORCH_SPECIALS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_TORCH_SPECIALS_H_

#include "symbolic/calls/array_calls.h"
#include "symbolic/calls/branch_calls.h"
#include "symbolic/calls/own_generators.h"
#include "symbolic/calls/setting_calls.h"
#include "symbolic/calls/tensor_copies.h"
#include "symbolic/calls/transform_calls.h"
#include "symbolic/evaluator/protocols.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {

class AutogradCalls;
class BreakController;
class CallEvaluator;
class Journals;
class NativeArguments;
class NativeCalls;
class ObjectTable;
struct CaptureOptions;

class TorchSpecials {
 public:
  TorchSpecials(Journals& journals, CallEvaluator& calls, NativeCalls& natives, AutogradCalls& autograd);

  Value Call(Activation& act, SpecialCall which, ValueView callable, absl::Span<const ValueView> args,
             BorrowedRef kwnames);
  BranchCalls& branches() { return branches_; }
  TransformCalls& transforms() { return transforms_; }

 private:
  Value CallOfOwnTensor(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  Value TensorOfArray(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);

  BreakController& breaks_;
  ObjectTable& objects_;
  NativeArguments& arguments_;
  const CaptureOptions& options_;
  NativeCalls& natives_;
  OwnGenerators own_generators_;
  ArrayCalls arrays_;
  BranchCalls branches_;
  TransformCalls transforms_;
  TensorCopies copies_;
  SettingCalls settings_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_TORCH_SPECIALS_H_
