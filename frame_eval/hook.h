// The hook: who gets a Python frame of this thread before CPython's evaluator does (PEP 523).
// HookScopes form a stack per thread; the innermost decides. CPython's evaluation function is replaced only while a
// scope with a handler is open in some thread, so a program that calls no compiled function runs at full speed.
// Invariant: scopes nest; each ends in the thread that began it. Needs the GIL.
#ifndef FRAMEFUSE_FRAME_EVAL_HOOK_H_
#define FRAMEFUSE_FRAME_EVAL_HOOK_H_

#include <Python.h>

#include <cstdint>

#include "frame_eval/versions/frame_ops.h"

namespace framefuse {

enum class HookMode : std::uint8_t {
  kOff,       // outside of compiled calls, and native Python below a capture
  kRun,       // a compiled call: the handler looks for entries and makes them
  kCapture,   // the handler evaluates the frame symbolically
  kDisabled,  // native Python; compiled functions called below run their Python code, too
};

class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  // Runs the frame; the result is as of CPython's evaluation function. While it runs, the hook stays as it is: frames
  // that are to run natively below need a HookScope of their own.
  virtual PyObject* OnFrame(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag) = 0;
};

class HookScope {
 public:
  // `handler` is null for kOff and kDisabled, and outlives the scope otherwise.
  explicit HookScope(HookMode mode, FrameHandler* handler = nullptr);
  ~HookScope();
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  HookMode saved_mode_;
  FrameHandler* saved_handler_;
  bool counted_;
};

HookMode CurrentHookMode();
FrameHandler* CurrentFrameHandler();
// Runs the frame as if there were no hook: with CPython's evaluator, or that of whoever had replaced it before us.
PyObject* RunUnhooked(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag);

}  // namespace framefuse

#endif  // FRAMEFUSE_FRAME_EVAL_HOOK_H_
