// AutogradCalls: torch.autograd.Function. Torch's own apply runs on fakes and calls forward, and at the close of the
// graph the engine calls backward; both are captured code. Invariant: what backward reads, it reads before the
// program's backward pass begins (journals/backward_phase.h); one that changes what existed before breaks the graph.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_AUTOGRAD_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_AUTOGRAD_CALLS_H_

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "symbolic/evaluator/protocols.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

class BackwardPhase;
class BreakController;
class FxJournal;
class Journals;
class NativeArguments;
class NativeCalls;
class ObjectTable;
class ReadJournal;
class WriteJournal;

bool IsAutogradFunction(BorrowedRef type);   // a class derived from torch.autograd.Function
bool IsFunctionOfProgram(BorrowedRef type);  // and its forward is the program's, perhaps as torch.func wraps it

class AutogradCalls {
 public:
  AutogradCalls(Journals& journals, NativeCalls& natives);

  Value ApplyAutogradFunction(Activation& act, BorrowedRef apply, PyTypeObject* function,
                              absl::Span<const ValueView> args, BorrowedRef kwnames);
  // A function of torch's around the program's, where torch.func's transforms call that. No value: none is active, and
  // its instructions are captured.
  std::optional<Value> CallForTransform(Activation& act, BorrowedRef function, absl::Span<const ValueView> args,
                                        BorrowedRef kwnames);
  absl::StatusOr<tracing::TracedGraph> CloseGraph(absl::Span<const BorrowedRef> outputs);

  bool applied() const { return applied_; }
  bool ExchangeApplied(bool applied) { return std::exchange(applied_, applied); }

 private:
  void ReadClass(PyTypeObject* function);
  void NoteResults(BorrowedRef results);

  tracing::Tracer& tracer_;
  FxJournal& fx_;
  BreakController& breaks_;
  BackwardPhase& backward_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  NativeArguments& arguments_;
  NativeCalls& natives_;
  bool applied_ = false;      // a function of torch.autograd
  std::vector<Ref> results_;  // with a history by one
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_AUTOGRAD_CALLS_H_
