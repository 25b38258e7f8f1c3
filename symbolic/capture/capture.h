// Capture: one attempt to evaluate a frame on fakes. It owns the journals (reads → guards, tensor operations → the
// tracer's graph, writes → overlays) and the meaning that the evaluator is given (capture_protocols.h), and runs the
// root frame. Invariant: no object that existed before is changed; every read of one has a guard; a break sets
// Control::unwinding and is never undone (soundness rules 1-14). Lives on the stack of attempt.cpp's driver.
#ifndef FRAMEFUSE_SYMBOLIC_CAPTURE_CAPTURE_H_
#define FRAMEFUSE_SYMBOLIC_CAPTURE_CAPTURE_H_

#include "symbolic/ambient/torch_state.h"
#include "symbolic/capture/capture_protocols.h"
#include "symbolic/evaluator/evaluator.h"
#include "symbolic/journals/capture_position.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/journals.h"

namespace framefuse {

class Capture {
 public:
  Capture(PyThreadState* thread, frame_ops::Frame* real_frame, const CaptureOptions& options);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  RunResult Run();  // evaluates a copy of the frame from where it stands

  // ---- what the attempt did
  FrameStack& frames() { return journals().frames(); }
  BreakController& breaks() { return journals().breaks(); }
  ReadJournal& reads() { return journals().reads(); }
  WriteJournal& writes() { return journals().writes(); }
  ObjectTable& objects() { return journals().objects(); }
  MadeClasses& made() { return journals().made(); }
  ContextVariables& contexts() { return journals().contexts(); }
  Symbols& symbols() { return journals().symbols(); }
  const ValueReads& values() { return journals().values(); }
  const RandomDraws& draws() { return journals().draws(); }
  tracing::Tracer& tracer() { return journals().tracer(); }
  ExpectedTruths& expected() { return journals().expected(); }
  FxJournal& fx() { return journals().fx(); }
  AutogradCalls& autograd() { return protocols_.autograd(); }
  FrameHandler& frame_handler() { return protocols_.frame_handler(); }

  int last_root_instruction() const { return last_root_instruction_; }
  bool evaluated() const { return evaluated_; }  // false: broke before the first instruction
  const TorchState& start_state() const { return start_state_; }
  const Ref& start_exception() const { return start_exception_; }
  // Of the root's level, where the attempt stands or ended.
  Ref HandledException() { return frames().has_root() ? frame_ops::HandledException(thread_) : end_exception_; }

 private:
  Journals& journals() { return protocols_.journals(); }

  PyThreadState* thread_;
  TorchState start_state_;
  const std::string why_left_;  // CaptureOptions
  CaptureProtocols protocols_;
  Ref start_exception_;  // handled when the attempt began
  Ref end_exception_;
  int last_root_instruction_ = 0;
  bool evaluated_ = false;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CAPTURE_CAPTURE_H_
