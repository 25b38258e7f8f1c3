// What CPython 3.14 does its own way: tagged references in frames, common constants and special methods.
#include "frame_eval/versions/internal.h"

#if PY_VERSION_HEX >= 0x030e0000 && PY_VERSION_HEX < 0x030f0000

#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/frame_values.h"
#include "frame_eval/versions/since_py312.h"

namespace framefuse::frame_ops {

PyCodeObject* Code(const Frame* frame) {
  return reinterpret_cast<PyCodeObject*>(PyStackRef_AsPyObjectBorrow(frame->f_executable));
}
PyFunctionObject* Function(const Frame* frame) {
  return reinterpret_cast<PyFunctionObject*>(PyStackRef_AsPyObjectBorrow(frame->f_funcobj));
}

void ClearAndPopFrame(PyThreadState* thread, Frame* frame) {
  GiveBackToDie(frame);
  _PyEval_FrameClearAndPop(thread, frame);
}
void FinishHookedFrame(PyThreadState* thread, Frame* frame) { ClearAndPopFrame(thread, frame); }

bool Enter(PyThreadState* thread, Frame* frame, Linkage*) {
  if (_Py_EnterRecursiveCallTstate(thread, "") || !EnterPythonCall(thread)) return false;
  HideValues(frame);
  frame->previous = thread->current_frame;
  thread->current_frame = frame;
  return true;
}

void Leave(PyThreadState* thread, Frame* frame, Linkage*) {
  ++thread->py_recursion_remaining;
  thread->current_frame = frame->previous;
  DropTags(frame);
}

// The instruction is a YIELD_VALUE, whose argument says that it is the yield of a `yield from` or an `await`.
void SuspendGenerator(PyThreadState* thread, Frame* frame) {
  PyGenObject* generator = _PyGen_GetGeneratorFromFrame(frame);
  const bool from_another = frame->instr_ptr->op.arg != 0;
  GiveBack(frame);
  generator->gi_frame_state = from_another ? FRAME_SUSPENDED_YIELD_FROM : FRAME_SUSPENDED;
  ++frame->instr_ptr;
  thread->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = nullptr;
  frame->previous = nullptr;
}

}  // namespace framefuse::frame_ops

#endif
