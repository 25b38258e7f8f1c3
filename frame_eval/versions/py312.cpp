// What CPython 3.12 does its own way: frames, opcodes and their caches.
#include "frame_eval/versions/internal.h"

#if PY_VERSION_HEX >= 0x030c0000 && PY_VERSION_HEX < 0x030d0000

#include <opcode.h>

#include "frame_eval/versions/data_stack.h"
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/object_ops.h"
#include "frame_eval/versions/run_opcode.h"
#include "frame_eval/versions/since_py312.h"

namespace framefuse::frame_ops {
namespace {

_PyCFrame* CFrame(Linkage* linkage) { return reinterpret_cast<_PyCFrame*>(linkage->storage); }
static_assert(sizeof(_PyCFrame) <= sizeof(Linkage::storage));

// What CPython's COMPUTE_EVAL_BREAKER does after a request was served.
void RecomputeEvalBreaker(PyInterpreterState* interpreter) {
  _ceval_state& state = interpreter->ceval;
  const bool set = LoadRelaxed(state.gil_drop_request) != 0 || LoadRelaxed(_PyRuntime.ceval.signals_pending) != 0 ||
                   LoadRelaxed(state.pending.calls_to_do) != 0 ||
                   LoadRelaxed(_PyRuntime.ceval.pending_mainthread.calls_to_do) != 0 || state.pending.async_exc != 0 ||
                   LoadRelaxed(state.gc_scheduled) != 0;
  StoreRelaxed(state.eval_breaker, set ? 1 : 0);
}

// Drops the frame's references but for the code object's, or gives them to a frame object that outlives it.
void ClearExceptCode(PyThreadState* thread, Frame* frame) {
  --thread->c_recursion_remaining;  // as CPython: finalisers run one level deeper
  PyFrameObject* object = frame->frame_obj;
  frame->frame_obj = nullptr;
  if (object != nullptr && Py_REFCNT(object) > 1) {
    Py_INCREF(frame->f_code);
    MoveToFrameObject(thread, object, frame);
    Py_DECREF(object);
  } else {
    Py_XDECREF(object);
    for (int i = 0; i < frame->stacktop; ++i) Py_XDECREF(frame->localsplus[i]);
    Py_XDECREF(frame->f_locals);
    Py_DECREF(frame->f_funcobj);
  }
  ++thread->c_recursion_remaining;
}

}  // namespace

PyCodeObject* Code(const Frame* frame) { return frame->f_code; }
int NextInstruction(const Frame* frame) { return LastInstruction(frame) + 1; }
void SetNextInstruction(Frame* frame, int instruction) { SetLastInstruction(frame, instruction - 1); }

void ClearAndPopFrame(PyThreadState* thread, Frame* frame) {
  auto* base = reinterpret_cast<PyObject**>(frame);
  PyCodeObject* code = frame->f_code;
  ClearExceptCode(thread, frame);
  Py_DECREF(code);
  PopDataStack(thread, base);
}

void FinishHookedFrame(PyThreadState* thread, Frame* frame) {
  if (!IsGenerator(frame)) {
    ClearAndPopFrame(thread, frame);
    return;
  }
  PyGenObject* generator = _PyFrame_GetGenerator(frame);
  generator->gi_frame_state = FRAME_CLEARED;
  thread->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = nullptr;
  ClearExceptCode(thread, frame);  // the generator keeps the code
  frame->previous = nullptr;
}

bool Enter(PyThreadState* thread, Frame* frame, Linkage* linkage) {
  if (_Py_EnterRecursiveCallTstate(thread, "")) return false;
  if (!EnterPythonCall(thread)) {
    _Py_LeaveRecursiveCallTstate(thread);
    return false;
  }
  _PyCFrame* previous = thread->cframe;
  _PyCFrame* link = CFrame(linkage);
  link->previous = previous;
  link->current_frame = frame;
  frame->previous = previous->current_frame;
  frame->stacktop = -1;  // keeps the garbage collector out of the running frame's stack
  thread->cframe = link;
  return true;
}

void Leave(PyThreadState* thread, Frame*, Linkage* linkage) {
  ++thread->py_recursion_remaining;
  _Py_LeaveRecursiveCallTstate(thread);
  thread->cframe = CFrame(linkage)->previous;
}

CodePointer* LastInstructionField(Frame* frame) { return reinterpret_cast<CodePointer*>(&frame->prev_instr); }
int LastInstruction(const Frame* frame) { return static_cast<int>(frame->prev_instr - _PyCode_CODE(frame->f_code)); }
void SetLastInstruction(Frame* frame, int instruction) {
  frame->prev_instr = _PyCode_CODE(frame->f_code) + instruction;
}

bool HasPendingWork(PyThreadState* thread) { return LoadRelaxed(thread->interp->ceval.eval_breaker) != 0; }

bool HasPendingSignals() { return LoadRelaxed(_PyRuntime.ceval.signals_pending) != 0 && IsMainThread(); }

int HandlePendingWork(PyThreadState* thread) {
  _ceval_state& state = thread->interp->ceval;
  if (LoadRelaxed(_PyRuntime.ceval.signals_pending) != 0 || LoadRelaxed(state.pending.calls_to_do) != 0 ||
      LoadRelaxed(_PyRuntime.ceval.pending_mainthread.calls_to_do) != 0) {
    if (Py_MakePendingCalls() != 0) return -1;
  }
  if (LoadRelaxed(state.gc_scheduled) != 0) {
    // The collector's entry is hidden: CPython's evaluator runs it at a RESUME.
    PyObject* none = Py_None;
    if (RunOpcode(thread, thread->interp->sysdict, NOP, 0, &none, 1).get() == nullptr) return -1;
  }
  if (LoadRelaxed(state.gil_drop_request) != 0) {
    PyEval_RestoreThread(PyEval_SaveThread());
  }
  if (PyObject* exception = thread->async_exc) {
    thread->async_exc = nullptr;
    state.pending.async_exc = 0;
    RecomputeEvalBreaker(thread->interp);
    PyErr_SetNone(exception);
    Py_DECREF(exception);
    return -1;
  }
  return 0;
}

Ref RunIntrinsic(Frame* frame, int which, PyObject* const* inputs, int input_count) {
  return RunOpcode(PyThreadState_Get(), frame->f_globals, input_count == 1 ? CALL_INTRINSIC_1 : CALL_INTRINSIC_2, which,
                   inputs, input_count);
}

void SuspendGenerator(PyThreadState* thread, Frame* frame) {
  PyGenObject* generator = _PyFrame_GetGenerator(frame);
  generator->gi_frame_state = FRAME_SUSPENDED;
  thread->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = nullptr;
  frame->previous = nullptr;
}

PyObject* RawInstanceDict(PyObject* object) {
  if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
    const PyDictOrValues attributes = *_PyObject_DictOrValuesPointer(object);
    return _PyDictOrValues_IsValues(attributes) ? nullptr : _PyDictOrValues_GetDict(attributes);
  }
  PyObject** slot = DictSlot(object);
  return slot == nullptr ? nullptr : *slot;
}

PyObject* RawInstanceAttr(PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
    const PyDictOrValues attributes = *_PyObject_DictOrValuesPointer(object);
    if (_PyDictOrValues_IsValues(attributes)) {
      const Py_ssize_t index = SharedKeyIndex(reinterpret_cast<PyHeapTypeObject*>(type)->ht_cached_keys, name);
      return index < 0 ? nullptr : _PyDictOrValues_GetValues(attributes)->values[index];
    }
  }
  return DictItem(RawInstanceDict(object), name);
}

bool NextInstanceAttr(PyObject* object, Py_ssize_t* position, PyObject** name, PyObject** value) {
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
    const PyDictOrValues attributes = *_PyObject_DictOrValuesPointer(object);
    if (_PyDictOrValues_IsValues(attributes)) {
      return NextOfValues(type, _PyDictOrValues_GetValues(attributes), position, name, value);
    }
  }
  PyObject* dict = RawInstanceDict(object);
  return dict != nullptr && PyDict_Next(dict, position, name, value) != 0;
}

}  // namespace framefuse::frame_ops

#endif
