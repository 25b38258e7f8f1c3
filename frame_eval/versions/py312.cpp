// What CPython 3.12 does its own way: frames, opcodes and their caches.
#include "frame_eval/versions/internal.h"

#if PY_VERSION_HEX >= 0x030c0000 && PY_VERSION_HEX < 0x030d0000

#include <opcode.h>

#include <algorithm>
#include <iterator>

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
                   LoadRelaxed(state.pending.calls_to_do) != 0 ||
                   LoadRelaxed(_PyRuntime.ceval.pending_mainthread.calls_to_do) != 0 || state.pending.async_exc != 0 ||
                   LoadRelaxed(state.gc_scheduled) != 0;
  StoreRelaxed(state.eval_breaker, set ? 1 : 0);
}

// The check of the Python recursion limit, as CPython words it.
bool CheckPythonRecursion(PyThreadState* thread) {
  if (thread->recursion_headroom != 0) {
    if (thread->py_recursion_remaining < -50) Py_FatalError("Cannot recover from Python stack overflow.");
    return true;
  }
  if (thread->py_recursion_remaining > 0) return true;
  ++thread->recursion_headroom;
  PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
  --thread->recursion_headroom;
  return false;
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

void SetEvalFunction(EvalFunction function) {
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(),
                                       function == nullptr ? _PyEval_EvalFrameDefault : function);
}
EvalFunction GetEvalFunction() {
  EvalFunction function = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
  return function == _PyEval_EvalFrameDefault ? nullptr : function;
}
PyObject* EvalDefault(PyThreadState* thread, Frame* frame, int throw_flag) {
  return _PyEval_EvalFrameDefault(thread, frame, throw_flag);
}
PyObject* EvalAndFree(PyThreadState* thread, Frame* frame, int throw_flag) {
  return _PyEval_EvalFrameDefault(thread, frame, throw_flag);
}
Watcher WatcherOf(PyThreadState* thread) {
  const bool in_python = thread->c_profilefunc != nullptr && PyCallable_Check(thread->c_profileobj) != 0;
  if (thread->c_tracefunc != nullptr || in_python) return Watcher::kOfFrames;
  const _Py_GlobalMonitors& monitors = thread->interp->monitors;
  for (const int event : {PY_MONITORING_EVENT_LINE, PY_MONITORING_EVENT_INSTRUCTION, PY_MONITORING_EVENT_JUMP,
                          PY_MONITORING_EVENT_BRANCH}) {
    if (monitors.tools[event] != 0) return Watcher::kOfFrames;
  }
  const bool any =
      std::any_of(std::begin(monitors.tools), std::end(monitors.tools), [](std::uint8_t tool) { return tool != 0; });
  return any || thread->c_profilefunc != nullptr ? Watcher::kOfCalls : Watcher::kNone;
}
bool IsInWatcher(PyThreadState* thread) { return thread->tracing != 0; }

PyCodeObject* Code(const Frame* frame) { return frame->f_code; }
PyFunctionObject* Function(const Frame* frame) { return reinterpret_cast<PyFunctionObject*>(frame->f_funcobj); }
PyObject* Globals(const Frame* frame) { return frame->f_globals; }
PyObject* Builtins(const Frame* frame) { return frame->f_builtins; }
PyObject* Locals(const Frame* frame) { return frame->f_locals; }
PyObject** Slots(Frame* frame) { return frame->localsplus; }
int SlotCount(PyCodeObject* code) { return code->co_nlocalsplus; }
int StackDepth(const Frame* frame) { return frame->stacktop - frame->f_code->co_nlocalsplus; }
int NextInstruction(const Frame* frame) { return LastInstruction(frame) + 1; }
bool IsGenerator(const Frame* frame) { return frame->owner == FRAME_OWNED_BY_GENERATOR; }
bool IsStarting(const Frame* frame) { return LastInstruction(frame) < 0; }

FrameView View(Frame* frame) {
  FrameView view;
  view.function = Function(frame);
  view.code = frame->f_code;
  view.globals = frame->f_globals;
  view.builtins = frame->f_builtins;
  view.slots = frame->localsplus;
  view.slot_count = frame->stacktop;
  view.offset = NextInstruction(frame);
  return view;
}

void SetNextInstruction(Frame* frame, int instruction) { SetLastInstruction(frame, instruction - 1); }
void SetStackDepth(Frame* frame, int depth) { frame->stacktop = frame->f_code->co_nlocalsplus + depth; }

Frame* NewFrame(PyThreadState* thread, PyFunctionObject* function, PyObject* locals) {
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  PyObject** base = PushDataStack(thread, code->co_framesize);
  if (base == nullptr) return nullptr;
  auto* frame = reinterpret_cast<Frame*>(base);
  Py_INCREF(function);
  Py_XINCREF(locals);
  _PyFrame_Initialize(frame, function, locals, code, 0);
  frame->previous = nullptr;
  return frame;
}

Frame* CopyFrame(PyThreadState* thread, Frame* original) {
  Frame* frame = NewFrame(thread, Function(original), original->f_locals);
  if (frame == nullptr) return nullptr;
  frame->prev_instr = original->prev_instr;
  frame->stacktop = original->stacktop;
  for (int i = 0; i < original->stacktop; ++i) {
    frame->localsplus[i] = original->localsplus[i];
    Py_XINCREF(frame->localsplus[i]);
  }
  return frame;
}

// The evaluator and FinishHookedFrame free it.
void ReleaseFrame(PyThreadState*, Frame*) {}

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
  --thread->py_recursion_remaining;
  if (!CheckPythonRecursion(thread)) {
    ++thread->py_recursion_remaining;
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

const _Py_CODEUNIT* CodeUnits(PyCodeObject* code) { return _PyCode_CODE(code); }
_Py_CODEUNIT** LastInstructionField(Frame* frame) { return &frame->prev_instr; }
int LastInstruction(const Frame* frame) { return static_cast<int>(frame->prev_instr - _PyCode_CODE(frame->f_code)); }
void SetLastInstruction(Frame* frame, int instruction) {
  frame->prev_instr = _PyCode_CODE(frame->f_code) + instruction;
}

void AddTraceback(PyThreadState* thread, Frame* frame) {
  if (_PyFrame_IsIncomplete(frame)) return;
  PyFrameObject* object = frame->frame_obj;
  if (object == nullptr) {
    PyObject* raised = PyErr_GetRaisedException();
    object = PyThreadState_GetFrame(thread);
    if (object == nullptr) PyErr_Clear();
    PyErr_SetRaisedException(raised);
    if (object == nullptr) return;
    Py_DECREF(object);  // the frame holds it
  }
  PyTraceBack_Here(object);
}

bool HasPendingWork(PyThreadState* thread) { return LoadRelaxed(thread->interp->ceval.eval_breaker) != 0; }

bool IsMainThread() { return PyThread_get_thread_ident() == _PyRuntime.main_thread; }

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

Ref HandledException(PyThreadState* thread) {
  PyObject* value = thread->exc_info->exc_value;
  return value == Py_None ? Ref() : Ref::Create(value);
}
void SetHandledException(PyThreadState* thread, Ref exception) {
  PyObject* old = thread->exc_info->exc_value;
  thread->exc_info->exc_value = exception.release();
  Py_XDECREF(old);
}
Ref FetchRaised(PyThreadState*) { return Ref::Steal(PyErr_GetRaisedException()); }
void RestoreRaised(PyThreadState*, Ref exception) { PyErr_SetRaisedException(exception.release()); }

Ref TakeRepeatedKey() {
  if (!PyErr_ExceptionMatches(PyExc_KeyError)) return nullptr;
  PyObject* raised = PyErr_GetRaisedException();
  PyObject* args = reinterpret_cast<PyBaseExceptionObject*>(raised)->args;
  if (args == nullptr || !PyTuple_Check(args) || PyTuple_GET_SIZE(args) != 1) {
    PyErr_SetRaisedException(raised);
    return nullptr;
  }
  Ref key = Ref::Create(PyTuple_GET_ITEM(args, 0));
  Py_DECREF(raised);
  return key;
}

void SetImportError(PyObject* message, PyObject* name, PyObject* path, PyObject* name_from) {
  const Ref args = Ref::Steal(PyTuple_Pack(1, message));
  const Ref kwargs = Ref::Steal(
      Py_BuildValue("{s:O,s:O,s:O}", "name", name, "path", path != nullptr ? path : Py_None, "name_from", name_from));
  if (!args || !kwargs) return;
  const Ref error = Ref::Steal(PyObject_Call(PyExc_ImportError, args, kwargs));
  if (error) PyErr_SetObject(PyExc_ImportError, error);
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
PyObject* GeneratorOf(Frame* frame) { return reinterpret_cast<PyObject*>(_PyFrame_GetGenerator(frame)); }

Py_ssize_t NewCodeExtraIndex(freefunc free) { return PyUnstable_Eval_RequestCodeExtraIndex(free); }
void* CodeExtra(PyCodeObject* code, Py_ssize_t index) {
  void* extra = nullptr;
  if (PyUnstable_Code_GetExtra(reinterpret_cast<PyObject*>(code), index, &extra) != 0) PyErr_Clear();
  return extra;
}
bool SetCodeExtra(PyCodeObject* code, Py_ssize_t index, void* extra) {
  return PyUnstable_Code_SetExtra(reinterpret_cast<PyObject*>(code), index, extra) == 0;
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

}  // namespace framefuse::frame_ops

#endif
