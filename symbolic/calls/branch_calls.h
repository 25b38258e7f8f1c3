// BranchCalls: cond() on a tensor: both branches are evaluated, one after the other, and become one operator of the
// graph. torch.utils.checkpoint is one branch, for the operator's backward, which computes its branch again. Invariant:
// only one branch runs in the end, so one with an effect breaks: what it could change is compared before and after.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_BRANCH_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_BRANCH_CALLS_H_

#include <optional>
#include <vector>
#include "symbolic/evaluator/protocols.h"
#include "symbolic/messages/graph_break.h"

namespace framefuse {

class AutogradCalls;
class BreakController;
class CallEvaluator;
class FxJournal;
class Journals;
class MadeClasses;
class NativeArguments;
class ExpectedTruths;
class NativeBoundary;
class NativeCalls;
class ObjectTable;
class ReadJournal;
class Symbols;
class WriteJournal;
namespace tracing {
class Tracer;
}

class BranchCalls {
 public:
  BranchCalls(Journals& journals, CallEvaluator& calls, NativeCalls& natives, AutogradCalls& autograd);

  Value CallCond(Activation& act, absl::Span<const ValueView> args);
  // That all elements of a tensor are true: the graph computes it, and the entry looks. Nothing: a call like others.
  std::optional<Value> CallCheck(Activation& act, absl::Span<const ValueView> args);
  Value CallCheckpoint(Activation& act, absl::Span<const ValueView> args);

 private:
  void BeginConditional(std::vector<Ref>* roots);
  Value CallBranch(Activation& act, GraphBreakKind kind, ValueView branch, absl::Span<const ValueView> operands,
                   const std::vector<Ref>& roots);
  Value CallJoined(Activation& act, GraphBreakKind kind, ValueView condition, ValueView yes, ValueView no);

  tracing::Tracer& tracer_;
  FxJournal& fx_;
  BreakController& breaks_;
  Symbols& symbols_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  ExpectedTruths& expected_;
  NativeArguments& arguments_;
  MadeClasses& made_;
  CallEvaluator& calls_;
  NativeCalls& natives_;
  AutogradCalls& autograd_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_BRANCH_CALLS_H_
