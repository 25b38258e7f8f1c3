// What CPython 3.13 does its own way: calls count as calls of C, generators' frames.
#include "frame_eval/versions/internal.h"

#if PY_VERSION_HEX >= 0x030d0000 && PY_VERSION_HEX < 0x030e0000

#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/since_py312.h"

namespace framefuse::frame_ops {
namespace {

// The evaluator counts as two calls of C.
constexpr int kMoreCUnits = 1;

}  // namespace

PyCodeObject* Code(const Frame* frame) { return reinterpret_cast<PyCodeObject*>(frame->f_executable); }

void ClearAndPopFrame(PyThreadState* thread, Frame* frame) { _PyEval_FrameClearAndPop(thread, frame); }
void FinishHookedFrame(PyThreadState* thread, Frame* frame) { _PyEval_FrameClearAndPop(thread, frame); }

bool Enter(PyThreadState* thread, Frame* frame, Linkage*) {
  thread->c_recursion_remaining -= kMoreCUnits;
  if (_Py_EnterRecursiveCallTstate(thread, "")) {  // counts nothing where it fails
    thread->c_recursion_remaining += kMoreCUnits;
    return false;
  }
  if (!EnterPythonCall(thread)) {
    thread->c_recursion_remaining += kMoreCUnits + 1;
    return false;
  }
  frame->previous = thread->current_frame;
  frame->stacktop = -1;  // keeps the garbage collector out of the running frame's stack
  thread->current_frame = frame;
  return true;
}

void Leave(PyThreadState* thread, Frame* frame, Linkage*) {
  ++thread->py_recursion_remaining;
  thread->c_recursion_remaining += kMoreCUnits + 1;
  thread->current_frame = frame->previous;
}

// The instruction is a YIELD_VALUE, whose argument says that it is the yield of a `yield from` or an `await`.
void SuspendGenerator(PyThreadState* thread, Frame* frame) {
  PyGenObject* generator = _PyFrame_GetGenerator(frame);
  const bool from_another = frame->instr_ptr->op.arg != 0;
  generator->gi_frame_state = from_another ? FRAME_SUSPENDED_YIELD_FROM : FRAME_SUSPENDED;
  ++frame->instr_ptr;
  thread->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = nullptr;
  frame->previous = nullptr;
}

}  // namespace framefuse::frame_ops

#endif
