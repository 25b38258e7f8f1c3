#include "symbolic/capture/capture.h"

#include "frame_eval/hook.h"
#include "symbolic/ambient/function_modes.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"

namespace framefuse {

Capture::Capture(PyThreadState* thread, frame_ops::Frame* real_frame, const CaptureOptions& options)
    : thread_(thread),
      start_state_(TorchState::Current()),
      why_left_(options.why_left),
      protocols_(thread, real_frame, options) {
  breaks().BreakAt(options.break_at);
}

Capture::~Capture() {
  // A generator that dies with the attempt runs no code: its frame unwinds.
  breaks().Unwind();
  const HookScope hook(HookMode::kCapture, &frame_handler());
  objects().ClearTracked();
  writes().Clear();
  protocols_.ClearReads();
  fx().Clear();
  end_exception_.reset();
  reads().EndLookups();
  objects().ClearFresh();
  made().TakeApart();
}

RunResult Capture::Run() {
  FrameStack& frames = this->frames();
  frame_ops::Frame* copy = frame_ops::CopyFrame(thread_, frames.real_frame());
  PyCodeObject* code = frame_ops::Code(copy);
  Activation act;
  act.frame = copy;
  act.completion = Completion::kRoot;
  act.sources.assign(
      static_cast<std::size_t>(frame_ops::SlotCount(code)) + static_cast<std::size_t>(code->co_stacksize), kNoSource);
  act.stack_depth = frame_ops::StackDepth(copy);
  PyObject** slots = frame_ops::Slots(copy);
  const int live = frame_ops::SlotCount(code) + act.stack_depth;
  // An unbound local is as it was until something writes it: in another call it may be bound.
  for (int i = 0; i < live; ++i) {
    const bool local = i < frame_ops::SlotCount(code) && !IsCellSlot(code, i);
    if (slots[i] != nullptr || local) act.sources[static_cast<std::size_t>(i)] = kUnadopted;
  }
  frames.PushRoot(&act);
  bool adopted = true;  // not so: what is there already may be nothing that a capture takes
  // The closure's cells reach the frame by COPY_FREE_VARS, without a load.
  PyObject* closure = frame_ops::IsStarting(copy) ? frame_ops::Function(copy)->func_closure : nullptr;
  for (Py_ssize_t i = 0; closure != nullptr && i < PyTuple_GET_SIZE(closure); ++i) {
    const SourceId cell =
        reads().sources().Intern(SourceKind::kClosureCell, kNoSource, static_cast<std::int32_t>(i), nullptr);
    adopted = adopted && objects().Adopt(PyTuple_GET_ITEM(closure, i), cell);
  }
  // Stack entries move between slots before anything looks at them; locals are adopted where they are loaded.
  for (int i = frame_ops::SlotCount(code); i < live; ++i) {
    if (slots[i] != nullptr) adopted = adopted && protocols_.AdoptSlot(act, i);
  }
  start_exception_ = frame_ops::HandledException(thread_);
  const Ref handled = Ref::Steal(PyErr_GetHandledException());
  frames.set_handles_from_outside(static_cast<bool>(handled));
  const char* const interceptor = InterceptorAtStart();
  const bool intercepted = interceptor != nullptr && !breaks().BreakFalse(GraphBreakKind::kIntercepted, interceptor);
  const bool left = !intercepted && !why_left_.empty() && !breaks().BreakFalse(GraphBreakKind::kCheckpoint, why_left_);
  evaluated_ = adopted && !intercepted && !left;
  RunResult result = Evaluate(thread_, act, protocols_, StartAt::kNext);
  if (result.outcome != Outcome::kReturned) FrameStack::DropSlots(copy);
  last_root_instruction_ = act.instruction;
  breaks().EndRun();
  journals().modes().Restore();
  end_exception_ = frame_ops::HandledException(thread_);
  frame_ops::SetHandledException(thread_, start_exception_);
  frames.Pop();
  frame_ops::ClearAndPopFrame(thread_, copy);
  return result;
}

}  // namespace framefuse
