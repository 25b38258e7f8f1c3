// What CPython does alike from 3.12 on.
#include "frame_eval/versions/internal.h"

#if PY_VERSION_HEX >= 0x030c0000

#include <algorithm>
#include <iterator>

#include "frame_eval/versions/data_stack.h"
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/since_py312.h"

namespace framefuse::frame_ops {

namespace {

constexpr int kEventsInFrames[] = {PY_MONITORING_EVENT_LINE, PY_MONITORING_EVENT_INSTRUCTION, PY_MONITORING_EVENT_JUMP,
#if PY_VERSION_HEX >= 0x030E0000
                                   PY_MONITORING_EVENT_BRANCH_LEFT, PY_MONITORING_EVENT_BRANCH_RIGHT};
#else
                                   PY_MONITORING_EVENT_BRANCH};
#endif

// A tool may ask for single code objects' events: who has said what to do with them listens.
bool ListensInFrames(const PyInterpreterState* interpreter) {
  for (int tool = 0; tool < PY_MONITORING_TOOL_IDS; ++tool) {
    if (interpreter->monitoring_tool_names[tool] == nullptr) continue;
    for (const int event : kEventsInFrames) {
      if (interpreter->monitoring_callables[tool][event] != nullptr) return true;
    }
  }
  return false;
}

// The frame takes over the references.
void Initialise(PyThreadState* thread, Frame* frame, PyFunctionObject* function, PyObject* locals, PyCodeObject* code) {
#if PY_VERSION_HEX >= 0x030E0000
  auto* object = reinterpret_cast<PyObject*>(function);
  _PyFrame_Initialize(thread, frame, PyStackRef_FromPyObjectSteal(object), locals, code, 0, nullptr);
#else
  static_cast<void>(thread);
  _PyFrame_Initialize(frame, function, locals, code, 0);
  frame->previous = nullptr;
#endif
}

}  // namespace

bool EnterPythonCall(PyThreadState* thread) {
  if (thread->py_recursion_remaining-- > 0) return true;
  if (thread->recursion_headroom != 0) {
    if (thread->py_recursion_remaining < -50) Py_FatalError("Cannot recover from Python stack overflow.");
    return true;
  }
  ++thread->recursion_headroom;
  PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
  --thread->recursion_headroom;
  ++thread->py_recursion_remaining;
  return false;
}

PyObject* EvalAndFree(PyThreadState* thread, Frame* frame, int throw_flag) {
  return EvalDefault(thread, frame, throw_flag);
}
Watcher WatcherOf(PyThreadState* thread) {
  const bool in_python = thread->c_profilefunc != nullptr && PyCallable_Check(thread->c_profileobj) != 0;
  if (thread->c_tracefunc != nullptr || in_python) return Watcher::kOfFrames;
  const _Py_GlobalMonitors& monitors = thread->interp->monitors;
  for (const int event : kEventsInFrames) {
    if (monitors.tools[event] != 0) return Watcher::kOfFrames;
  }
  if (ListensInFrames(thread->interp)) return Watcher::kOfFrames;
  // A debugger or coverage asks for a code object's lines when it is told of its start.
  const auto looks_into_frames = [](std::uint8_t tools) {
    return (tools & (1U << PY_MONITORING_DEBUGGER_ID | 1U << PY_MONITORING_COVERAGE_ID)) != 0;
  };
  if (std::any_of(std::begin(monitors.tools), std::end(monitors.tools), looks_into_frames)) return Watcher::kOfFrames;
  const bool any =
      std::any_of(std::begin(monitors.tools), std::end(monitors.tools), [](std::uint8_t tool) { return tool != 0; });
  return any || thread->c_profilefunc != nullptr ? Watcher::kOfCalls : Watcher::kNone;
}

#if PY_VERSION_HEX < 0x030E0000
PyFunctionObject* Function(const Frame* frame) { return reinterpret_cast<PyFunctionObject*>(frame->f_funcobj); }
#endif

Frame* NewFrame(PyThreadState* thread, PyFunctionObject* function, PyObject* locals) {
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  PyObject** base = PushDataStack(thread, code->co_framesize);
  if (base == nullptr) return nullptr;
  auto* frame = reinterpret_cast<Frame*>(base);
  Py_INCREF(function);
  Py_XINCREF(locals);
  Initialise(thread, frame, function, locals, code);
  return frame;
}

// The evaluator and FinishHookedFrame free it.
void ReleaseFrame(PyThreadState*, Frame*) {}

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

Py_ssize_t NewCodeExtraIndex(freefunc free) { return PyUnstable_Eval_RequestCodeExtraIndex(free); }
void* CodeExtra(PyCodeObject* code, Py_ssize_t index) {
  void* extra = nullptr;
  if (PyUnstable_Code_GetExtra(reinterpret_cast<PyObject*>(code), index, &extra) != 0) PyErr_Clear();
  return extra;
}
bool SetCodeExtra(PyCodeObject* code, Py_ssize_t index, void* extra) {
  return PyUnstable_Code_SetExtra(reinterpret_cast<PyObject*>(code), index, extra) == 0;
}

}  // namespace framefuse::frame_ops

#endif
