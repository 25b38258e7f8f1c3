// What is the same in all supported versions of CPython; py311.cpp and its like have the differences.
#include "frame_eval/versions/internal.h"
// internal.h first: it changes what Python.h declares.
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/frame_values.h"

namespace framefuse::frame_ops {

// ---- the hook
void SetEvalFunction(EvalFunction function) {
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(),
                                       function == nullptr ? _PyEval_EvalFrameDefault : function);
}
EvalFunction GetEvalFunction() {
  EvalFunction function = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
  return function == _PyEval_EvalFrameDefault ? nullptr : function;
}
#if PY_VERSION_HEX < 0x030E0000
void GiveBack(Frame*) {}
#endif
PyObject* EvalDefault(PyThreadState* thread, Frame* frame, int throw_flag) {
  GiveBack(frame);
  return _PyEval_EvalFrameDefault(thread, frame, throw_flag);
}
bool IsInWatcher(PyThreadState* thread) { return thread->tracing != 0; }
bool IsMainThread() { return PyThread_get_thread_ident() == _PyRuntime.main_thread; }

// ---- frames
PyObject* Globals(const Frame* frame) { return frame->f_globals; }
PyObject* Builtins(const Frame* frame) { return frame->f_builtins; }
PyObject* Locals(const Frame* frame) { return frame->f_locals; }
PyObject** Slots(Frame* frame) { return Values(frame); }
int SlotCount(PyCodeObject* code) { return code->co_nlocalsplus; }
int StackDepth(const Frame* frame) { return ValueCount(frame) - Code(frame)->co_nlocalsplus; }
void SetStackDepth(Frame* frame, int depth) { SetValueCount(frame, Code(frame)->co_nlocalsplus + depth); }
bool IsGenerator(const Frame* frame) { return frame->owner == FRAME_OWNED_BY_GENERATOR; }
bool IsStarting(const Frame* frame) { return NextInstruction(frame) == 0; }
PyObject* GeneratorOf(Frame* frame) {
#if PY_VERSION_HEX >= 0x030E0000
  return reinterpret_cast<PyObject*>(_PyGen_GetGeneratorFromFrame(frame));
#else
  return reinterpret_cast<PyObject*>(_PyFrame_GetGenerator(frame));
#endif
}
static_assert(sizeof(CodeUnit) == sizeof(_Py_CODEUNIT));
CodeUnit* CodeUnits(PyCodeObject* code) { return reinterpret_cast<CodeUnit*>(_PyCode_CODE(code)); }

FrameView View(Frame* frame) {
  FrameView view;
  view.function = Function(frame);
  view.code = Code(frame);
  view.globals = frame->f_globals;
  view.builtins = frame->f_builtins;
  view.slots = Values(frame);
  view.slot_count = ValueCount(frame);
  view.offset = NextInstruction(frame);
  return view;
}

namespace {

// Frames of C code, and those that are not set up yet, are no part of the program.
Frame* Complete(Frame* frame) {
  while (frame != nullptr && _PyFrame_IsIncomplete(frame)) frame = frame->previous;
  return frame;
}

}  // namespace

Frame* CurrentFrame(PyThreadState* thread) {
#if PY_VERSION_HEX >= 0x030D0000
  return Complete(thread->current_frame);
#else
  return Complete(thread->cframe->current_frame);
#endif
}
Frame* CallerOf(const Frame* frame) { return Complete(frame->previous); }

Frame* CopyFrame(PyThreadState* thread, Frame* original) {
  Frame* frame = NewFrame(thread, Function(original), original->f_locals);
  if (frame == nullptr) return nullptr;
  SetNextInstruction(frame, NextInstruction(original));
  PyObject* const* from = Values(original);
  PyObject** to = Values(frame);
  const int count = ValueCount(original);
  for (int i = 0; i < count; ++i) to[i] = Py_XNewRef(from[i]);
  SetValueCount(frame, count);
  return frame;
}

// ---- exceptions
Ref HandledException(PyThreadState* thread) {
  PyObject* value = thread->exc_info->exc_value;
  return value == Py_None ? Ref() : Ref::Create(value);
}
void SetHandledException(PyThreadState* thread, Ref exception) {
  PyObject* old = thread->exc_info->exc_value;
  if (exception.get() == Py_None) exception.reset();  // from 3.13 on None would hide what is handled further out
  thread->exc_info->exc_value = exception.release();
  Py_XDECREF(old);
}

}  // namespace framefuse::frame_ops
