#include "frame_eval/hook.h"

#include <utility>

namespace framefuse {
namespace {

struct ThreadHook {
  HookMode mode = HookMode::kOff;
  FrameHandler* handler = nullptr;
};
constinit thread_local ThreadHook current;

int open_handlers = 0;                       // scopes with a handler, over all threads
frame_ops::EvalFunction previous = nullptr;  // what we replaced
// The frame that `previous` was handed last. It may hand it back, as who replaced us while it was not there.
constinit thread_local frame_ops::Frame* handed_on = nullptr;

PyObject* Hook(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag) {
  if (frame == handed_on) return frame_ops::EvalDefault(thread, frame, throw_flag);
  FrameHandler* handler = current.handler;
  return handler != nullptr ? handler->OnFrame(thread, frame, throw_flag) : RunUnhooked(thread, frame, throw_flag);
}

}  // namespace

PyObject* RunUnhooked(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag) {
  if (previous == nullptr) return frame_ops::EvalDefault(thread, frame, throw_flag);
  frame_ops::GiveBack(frame);
  frame_ops::Frame* const outer = std::exchange(handed_on, frame);
  PyObject* result = previous(thread, frame, throw_flag);
  handed_on = outer;
  return result;
}

HookScope::HookScope(HookMode mode, FrameHandler* handler)
    : saved_mode_(std::exchange(current.mode, mode)),
      saved_handler_(std::exchange(current.handler, handler)),
      counted_(handler != nullptr) {
  if (!counted_ || open_handlers++ > 0) return;
  frame_ops::EvalFunction const found = frame_ops::GetEvalFunction();
  // Ours is there where somebody who replaced it put it back after our last scope had ended.
  if (found == Hook) return;
  previous = found;
  frame_ops::SetEvalFunction(Hook);
}

HookScope::~HookScope() {
  current = {saved_mode_, saved_handler_};
  if (!counted_ || --open_handlers > 0) return;
  // Someone who replaced the function after us has ours as their previous one: it must stay callable, and does.
  if (frame_ops::GetEvalFunction() == Hook) frame_ops::SetEvalFunction(previous);
  previous = nullptr;
}

HookMode CurrentHookMode() { return current.mode; }
FrameHandler* CurrentFrameHandler() { return current.handler; }

}  // namespace framefuse
