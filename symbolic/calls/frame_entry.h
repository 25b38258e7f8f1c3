// FrameEntry: the hook's handler of an attempt: every Python frame that a call of the evaluator's starts, also through
// C code, comes here, and is evaluated or runs as it is (torch's own in a leaf, finalisers, what our own Python code
// does). Invariant: a frame that is evaluated is on the FrameStack for as long, and what it returns to
// C code is made safe to be read as an argument is, unless that only moves it.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_FRAME_ENTRY_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_FRAME_ENTRY_H_

#include <utility>

#include "frame_eval/hook.h"
#include "symbolic/evaluator/evaluator.h"
#include "symbolic/evaluator/protocols.h"
#include "symbolic/messages/graph_break.h"

namespace framefuse {

class BackwardPhase;
class BreakController;
class FrameStack;
class FxJournal;
class Journals;
class NativeArguments;
class NativeBoundary;
class ObjectTable;
class RaisingBranches;
class ReadJournal;
class WriteJournal;
namespace tracing {
class Tracer;
}

class FrameEntry final : public FrameHandler {
 public:
  // A call that captured code is about to make: how its frame completes the caller's instruction.
  struct ExpectedCall {
    PyObject* function = nullptr;
    Completion completion = Completion::kCallback;
    Ref pending;
    absl::Span<const ValueView> args;
  };

  FrameEntry(Journals& journals, Protocols& meaning, PyThreadState* thread);

  PyObject* OnFrame(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag) override;
  void Expect(ExpectedCall call) { expected_ = std::move(call); }

 private:
  Activation ActivationOf(frame_ops::Frame* frame, const ExpectedCall& call) const;
  // Null: the frame is over.
  PyObject* BreakAsItStarts(frame_ops::Frame* frame, GraphBreakKind kind, const char* why);
  [[nodiscard]] bool BreaksAsItStarts(frame_ops::Frame* frame);
  [[nodiscard]] bool DeferWarning(frame_ops::Frame* show);  // the entry says it
  PyObject* ThrowIntoGenerator(frame_ops::Frame* frame);
  PyObject* EvaluateFrame(Activation& act, StartAt start);
  [[nodiscard]] bool PrepareFrameSlots(Activation& act, const ExpectedCall& call);
  bool BelongsToTorchLeaf(frame_ops::Frame* frame) const;
  [[nodiscard]] bool HandBack(BorrowedRef result);

  FrameStack& frames_;
  tracing::Tracer& tracer_;
  FxJournal& fx_;
  BreakController& breaks_;
  BackwardPhase& backward_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  NativeArguments& arguments_;
  WriteJournal& writes_;
  const RaisingBranches* warning_;
  const bool all_frames_;
  Protocols& meaning_;
  PyThreadState* thread_;
  ExpectedCall expected_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_FRAME_ENTRY_H_
