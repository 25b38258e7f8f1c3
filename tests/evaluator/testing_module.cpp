// ff_evaluator_testing: lets Python tests drive the evaluator with NativeProtocols on all Python frames, pause and
// continue runs at chosen instructions, and look at decoded bytecode. Plain C API.
#include <Python.h>

#include <string>

#include "frame_eval/bytecode/decode.h"
#include "frame_eval/bytecode/liveness.h"
#include "frame_eval/versions/frame_ops.h"
#include "symbolic/evaluator/evaluator.h"
#include "symbolic/evaluator/native_protocols.h"

namespace framefuse {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

// How a paused frame goes on.
enum class ContinueWith { kDefault, kEvaluate };

struct Settings {
  std::uint64_t pause_at = kNever;
  std::uint64_t pause_every = 0;  // 0: once
  ContinueWith continue_with = ContinueWith::kDefault;
};

struct Counters {
  std::uint64_t frames = 0;
  std::uint64_t default_frames = 0;
  std::uint64_t pauses = 0;
};

Settings settings;
Counters counters;

class TestingProtocols final : public NativeProtocols {
 public:
  StopAction OnStop(Activation&) override {
    ++counters.pauses;
    control.stop_at = settings.pause_every == 0 ? kNever : control.executed + settings.pause_every;
    return StopAction::kPause;
  }
};

TestingProtocols& ProtocolsOfThread() {
  static thread_local TestingProtocols protocols;
  return protocols;
}

bool StartsGenerator(frame_ops::Frame* frame) {
  constexpr int kFlags = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  return (frame_ops::Code(frame)->co_flags & kFlags) != 0 && !frame_ops::IsGenerator(frame);
}

PyObject* EvaluateFrame(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag) {
  if (StartsGenerator(frame) || frame_ops::IsTraced(thread)) {
    ++counters.default_frames;
    return frame_ops::EvalDefault(thread, frame, throw_flag);
  }
  ++counters.frames;
  TestingProtocols& protocols = ProtocolsOfThread();
  StartAt start = throw_flag != 0 ? StartAt::kThrow : StartAt::kNext;
  for (;;) {
    Activation act;
    act.frame = frame;
    RunResult result = Evaluate(thread, act, protocols, start);
    if (result.outcome == Outcome::kPaused) {
      if (settings.continue_with == ContinueWith::kDefault) return frame_ops::EvalDefault(thread, frame, 0);
      start = StartAt::kNext;
      continue;
    }
    if (result.outcome != Outcome::kYielded) frame_ops::FinishHookedFrame(thread, frame);
    return result.value.object.release();
  }
}

PyObject* Enable(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"pause_at", "pause_every", "continue_with", nullptr};
  long long pause_at = -1;
  long long pause_every = 0;
  const char* continue_with = "default";
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|LLs", const_cast<char**>(names), &pause_at, &pause_every,
                                   &continue_with)) {
    return nullptr;
  }
  settings.pause_at = pause_at < 0 ? kNever : static_cast<std::uint64_t>(pause_at);
  settings.pause_every = static_cast<std::uint64_t>(pause_every);
  settings.continue_with =
      std::string(continue_with) == "evaluate" ? ContinueWith::kEvaluate : ContinueWith::kDefault;
  counters = {};
  Control& control = ProtocolsOfThread().control;
  control.executed = 0;
  control.stop_at = settings.pause_at;
  frame_ops::SetEvalFunction(EvaluateFrame);
  Py_RETURN_NONE;
}

PyObject* Disable(PyObject*, PyObject*) {
  frame_ops::SetEvalFunction(nullptr);
  ProtocolsOfThread().control.stop_at = kNever;
  Py_RETURN_NONE;
}

PyObject* Stats(PyObject*, PyObject*) {
  return Py_BuildValue("{s:K,s:K,s:K,s:K}", "instructions",
                       static_cast<unsigned long long>(ProtocolsOfThread().control.executed), "frames",
                       static_cast<unsigned long long>(counters.frames), "default_frames",
                       static_cast<unsigned long long>(counters.default_frames), "pauses",
                       static_cast<unsigned long long>(counters.pauses));
}

bool IsCode(PyObject* object) {
  if (PyCode_Check(object)) return true;
  PyErr_SetString(PyExc_TypeError, "a code object is expected");
  return false;
}

// [(name, raw, arg, kwnames, start, index, next, target index or None, pops)]
PyObject* DecodeCode(PyObject*, PyObject* code) {
  if (!IsCode(code)) return nullptr;
  const Bytecode* bytecode = BytecodeOf(reinterpret_cast<PyCodeObject*>(code));
  if (bytecode == nullptr) return nullptr;
  Ref list = Ref::Steal(PyList_New(0));
  for (const Instruction& in : bytecode->instructions()) {
    PyObject* target = in.target < 0
                           ? Py_NewRef(Py_None)
                           : PyLong_FromLong(bytecode->instructions()[static_cast<std::size_t>(in.target)].start);
    const Ref item = Ref::Steal(Py_BuildValue("(siiiiiiNi)", NameOf(in.opcode), in.raw, in.arg, in.kwnames, in.start,
                                              in.index, in.next, target, in.pops));
    if (!item || PyList_Append(list, item) != 0) return nullptr;
  }
  return list.release();
}

// [(start, end, target, depth, push_last_instruction)]
PyObject* HandlersOf(PyObject*, PyObject* code) {
  if (!IsCode(code)) return nullptr;
  const Bytecode* bytecode = BytecodeOf(reinterpret_cast<PyCodeObject*>(code));
  if (bytecode == nullptr) return nullptr;
  Ref list = Ref::Steal(PyList_New(0));
  for (const ExceptionHandler& handler : bytecode->handlers()) {
    const Ref item = Ref::Steal(Py_BuildValue("(iiiiN)", handler.start, handler.end, handler.target, handler.depth,
                                              PyBool_FromLong(handler.push_last_instruction)));
    if (!item || PyList_Append(list, item) != 0) return nullptr;
  }
  return list.release();
}

// {start: {live slots}}
PyObject* LiveSlots(PyObject*, PyObject* object) {
  if (!IsCode(object)) return nullptr;
  auto* code = reinterpret_cast<PyCodeObject*>(object);
  const Bytecode* bytecode = BytecodeOf(code);
  if (bytecode == nullptr) return nullptr;
  const Liveness& liveness = LivenessOf(code);
  Ref result = Ref::Steal(PyDict_New());
  for (const Instruction& in : bytecode->instructions()) {
    const Ref slots = Ref::Steal(PySet_New(nullptr));
    for (int slot = 0; slot < frame_ops::SlotCount(code); ++slot) {
      if (!liveness.IsLive(in.start, slot)) continue;
      const Ref number = Ref::Steal(PyLong_FromLong(slot));
      if (!number || PySet_Add(slots, number) != 0) return nullptr;
    }
    const Ref start = Ref::Steal(PyLong_FromLong(in.start));
    if (!start || PyDict_SetItem(result, start, slots) != 0) return nullptr;
  }
  return result.release();
}

// {number: (name, handled)} of this Python's opcodes
PyObject* Opcodes(PyObject*, PyObject*) {
  Ref result = Ref::Steal(PyDict_New());
  for (int opcode = 0; opcode < 256; ++opcode) {
    const char* name = OpcodeName(opcode);
    if (name[0] == '\0') continue;
    const Ref number = Ref::Steal(PyLong_FromLong(opcode));
    const Ref item = Ref::Steal(Py_BuildValue("(sN)", name, PyBool_FromLong(HandlesOpcode(opcode))));
    if (!number || !item || PyDict_SetItem(result, number, item) != 0) return nullptr;
  }
  return result.release();
}

PyMethodDef methods[] = {
    {"enable", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(Enable)), METH_VARARGS | METH_KEYWORDS,
     "Evaluate all Python frames; pause before instruction number pause_at, then after each pause_every more."},
    {"disable", Disable, METH_NOARGS, "CPython's evaluator again."},
    {"stats", Stats, METH_NOARGS, "Instructions, frames and pauses since enable()."},
    {"decode", DecodeCode, METH_O, "The decoded instructions of a code object."},
    {"handlers", HandlersOf, METH_O, "The decoded exception table of a code object."},
    {"live_slots", LiveSlots, METH_O, "The live slots before each instruction."},
    {"opcodes", Opcodes, METH_NOARGS, "This Python's opcodes and whether the evaluator executes them."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "ff_evaluator_testing", nullptr, -1, methods,
                      nullptr,               nullptr,                nullptr, nullptr};

}  // namespace
}  // namespace framefuse

PyMODINIT_FUNC PyInit_ff_evaluator_testing() { return PyModule_Create(&framefuse::module); }
