// What CPython 3.11 does its own way: frames, opcodes and their caches.
#include "frame_eval/versions/internal.h"

#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000

#include <opcode.h>

#include <cstring>

#include "frame_eval/versions/data_stack.h"
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/object_ops.h"
#include "frame_eval/versions/run_opcode.h"

namespace framefuse::frame_ops {
namespace {

_PyCFrame* CFrame(Linkage* linkage) { return reinterpret_cast<_PyCFrame*>(linkage->storage); }
static_assert(sizeof(_PyCFrame) <= sizeof(Linkage::storage));

// What CPython's COMPUTE_EVAL_BREAKER does after a request was served.
void RecomputeEvalBreaker(PyInterpreterState* interpreter) {
  _ceval_state& state = interpreter->ceval;
  const bool set = LoadRelaxed(state.gil_drop_request) != 0 || LoadRelaxed(_PyRuntime.ceval.signals_pending) != 0 ||
                   LoadRelaxed(state.pending.calls_to_do) != 0 || state.pending.async_exc != 0;
  StoreRelaxed(state.eval_breaker, set ? 1 : 0);
}

}  // namespace

PyObject* EvalAndFree(PyThreadState* thread, Frame* frame, int throw_flag) {
  frame->previous = thread->cframe->current_frame;
  PyObject* result = _PyEval_EvalFrameDefault(thread, frame, throw_flag);
  ClearAndPopFrame(thread, frame);
  return result;
}
Watcher WatcherOf(PyThreadState* thread) {
  if (thread->cframe->use_tracing == 0) return Watcher::kNone;
  // sys.setprofile keeps the Python function as the profiler's object.
  const bool in_python = thread->c_profilefunc != nullptr && PyCallable_Check(thread->c_profileobj) != 0;
  return thread->c_tracefunc != nullptr || in_python ? Watcher::kOfFrames : Watcher::kOfCalls;
}

PyCodeObject* Code(const Frame* frame) { return frame->f_code; }
PyFunctionObject* Function(const Frame* frame) { return frame->f_func; }
int NextInstruction(const Frame* frame) { return LastInstruction(frame) + 1; }
void SetNextInstruction(Frame* frame, int instruction) { SetLastInstruction(frame, instruction - 1); }

Frame* NewFrame(PyThreadState* thread, PyFunctionObject* function, PyObject* locals) {
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  const int slots = code->co_nlocalsplus;
  PyObject** base = PushDataStack(thread, slots + code->co_stacksize + static_cast<int>(FRAME_SPECIALS_SIZE));
  if (base == nullptr) return nullptr;
  auto* frame = reinterpret_cast<Frame*>(base);
  Py_INCREF(function);
  _PyFrame_InitializeSpecials(frame, function, locals, slots);
  for (int i = 0; i < slots; ++i) frame->localsplus[i] = nullptr;
  return frame;
}

void ReleaseFrame(PyThreadState* thread, Frame* frame) { ClearAndPopFrame(thread, frame); }

void ClearAndPopFrame(PyThreadState* thread, Frame* frame) {
  auto* base = reinterpret_cast<PyObject**>(frame);
  --thread->recursion_remaining;  // as CPython: finalisers run one level deeper
  PyFrameObject* object = frame->frame_obj;
  frame->frame_obj = nullptr;
  if (object != nullptr && Py_REFCNT(object) > 1) {
    MoveToFrameObject(thread, object, frame);
    Py_DECREF(object);
  } else {
    Py_XDECREF(object);
    for (int i = 0; i < frame->stacktop; ++i) Py_XDECREF(frame->localsplus[i]);
    Py_XDECREF(frame->f_locals);
    Py_DECREF(frame->f_func);
    Py_DECREF(frame->f_code);
  }
  ++thread->recursion_remaining;
  PopDataStack(thread, base);
}

void FinishHookedFrame(PyThreadState*, Frame*) {}

bool Enter(PyThreadState* thread, Frame* frame, Linkage* linkage) {
  if (_Py_EnterRecursiveCallTstate(thread, "")) return false;
  _PyCFrame* previous = thread->cframe;
  _PyCFrame* link = CFrame(linkage);
  link->use_tracing = previous->use_tracing;
  link->previous = previous;
  link->current_frame = frame;
  frame->is_entry = true;
  frame->previous = previous->current_frame;
  frame->stacktop = -1;  // keeps the garbage collector out of the running frame's stack
  thread->cframe = link;
  return true;
}

void Leave(PyThreadState* thread, Frame*, Linkage* linkage) {
  _Py_LeaveRecursiveCallTstate(thread);
  _PyCFrame* link = CFrame(linkage);
  thread->cframe = link->previous;
  thread->cframe->use_tracing = link->use_tracing;
}

CodePointer* LastInstructionField(Frame* frame) { return reinterpret_cast<CodePointer*>(&frame->prev_instr); }
int LastInstruction(const Frame* frame) { return static_cast<int>(frame->prev_instr - _PyCode_CODE(frame->f_code)); }
void SetLastInstruction(Frame* frame, int instruction) {
  frame->prev_instr = _PyCode_CODE(frame->f_code) + instruction;
}

void AddTraceback(PyThreadState* thread, Frame* frame) {
  if (_PyFrame_IsIncomplete(frame)) return;
  PyFrameObject* object = frame->frame_obj;
  if (object == nullptr) {
    // Making a frame object may run the collector, never Python code; the error must survive it.
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    object = PyThreadState_GetFrame(thread);
    if (object == nullptr) PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    if (object == nullptr) return;
    Py_DECREF(object);  // the frame holds it
  }
  PyTraceBack_Here(object);
}

bool HasPendingWork(PyThreadState* thread) { return LoadRelaxed(thread->interp->ceval.eval_breaker) != 0; }

bool HasPendingSignals() { return LoadRelaxed(_PyRuntime.ceval.signals_pending) != 0 && IsMainThread(); }

int HandlePendingWork(PyThreadState* thread) {
  _ceval_state& state = thread->interp->ceval;
  if (LoadRelaxed(_PyRuntime.ceval.signals_pending) != 0 || LoadRelaxed(state.pending.calls_to_do) != 0) {
    if (Py_MakePendingCalls() != 0) return -1;
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

Ref FetchRaised(PyThreadState*) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyException_SetTraceback(value, traceback != nullptr ? traceback : Py_None);
  Py_XDECREF(traceback);
  Py_XDECREF(type);
  return Ref::Steal(value);
}
void RestoreRaised(PyThreadState*, Ref exception) {
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(exception.get()));
  PyObject* traceback = PyException_GetTraceback(exception);
  PyErr_Restore(Py_NewRef(type), exception.release(), traceback);
}

Ref TakeRepeatedKey() {
  if (!PyErr_ExceptionMatches(PyExc_KeyError)) return nullptr;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  // Merging raises a tuple not yet made an exception; a mapping's own KeyError is one.
  if (value == nullptr || !PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 1) {
    PyErr_Restore(type, value, traceback);
    return nullptr;
  }
  Ref key = Ref::Create(PyTuple_GET_ITEM(value, 0));
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return key;
}

void SetImportError(PyObject* message, PyObject* name, PyObject* path, PyObject*) {
  PyErr_SetImportError(message, name, path);
}

Ref RunIntrinsic(Frame* frame, int which, PyObject* const* inputs, int input_count) {
  constexpr int kAsyncGenWrap = 4;
  if (which != kAsyncGenWrap) {
    PyErr_Format(PyExc_SystemError, "framefuse: no intrinsic %d in this Python", which);
    return nullptr;
  }
  return RunOpcode(PyThreadState_Get(), frame->f_globals, ASYNC_GEN_WRAP, 0, inputs, input_count);
}

void SuspendGenerator(PyThreadState*, Frame* frame) { _PyFrame_GetGenerator(frame)->gi_frame_state = FRAME_SUSPENDED; }

Py_ssize_t NewCodeExtraIndex(freefunc free) { return _PyEval_RequestCodeExtraIndex(free); }
void* CodeExtra(PyCodeObject* code, Py_ssize_t index) {
  void* extra = nullptr;
  if (_PyCode_GetExtra(reinterpret_cast<PyObject*>(code), index, &extra) != 0) PyErr_Clear();
  return extra;
}
bool SetCodeExtra(PyCodeObject* code, Py_ssize_t index, void* extra) {
  return _PyCode_SetExtra(reinterpret_cast<PyObject*>(code), index, extra) == 0;
}

PyObject* RawInstanceDict(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) return *_PyObject_ManagedDictPointer(object);
  PyObject** slot = DictSlot(object);
  return slot == nullptr ? nullptr : *slot;
}

PyObject* RawInstanceAttr(PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
    if (PyDictValues* values = *_PyObject_ValuesPointer(object)) {
      const Py_ssize_t index = SharedKeyIndex(reinterpret_cast<PyHeapTypeObject*>(type)->ht_cached_keys, name);
      return index < 0 ? nullptr : values->values[index];
    }
  }
  return DictItem(RawInstanceDict(object), name);
}

bool NextInstanceAttr(PyObject* object, Py_ssize_t* position, PyObject** name, PyObject** value) {
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
    if (const PyDictValues* values = *_PyObject_ValuesPointer(object)) {
      return NextOfValues(type, values, position, name, value);
    }
  }
  PyObject* dict = RawInstanceDict(object);
  return dict != nullptr && PyDict_Next(dict, position, name, value) != 0;
}

}  // namespace framefuse::frame_ops

#endif
