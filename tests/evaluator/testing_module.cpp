// ff_evaluator_testing: lets Python tests drive the evaluator with NativeProtocols on all Python frames, pause and
// continue runs at chosen instructions, and look at decoded bytecode. Plain C API.
#include <Python.h>

#include <string>

#include "frame_eval/bytecode/decode.h"
#include "frame_eval/bytecode/lines.h"
#include "frame_eval/bytecode/liveness.h"
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/opcode_table.h"
#include "symbolic/evaluator/evaluator.h"
#include "symbolic/evaluator/native_protocols.h"

namespace framefuse {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

// How a paused frame goes on.
enum class ContinueWith { kDefault, kEvaluate };

// Checks that sources travel with their objects: every value that a protocol produces, and every adopted slot, gets
// a source made of its address, and every operand with a source must still have that of its address.
SourceId TagOf(PyObject* object) {
  return static_cast<SourceId>((reinterpret_cast<std::uintptr_t>(object) >> 4) & 0x3fffffff) + 1;
}

struct Settings {
  std::uint64_t interrupt_every = 0;  // 0: never
  bool check_sources = false;
  std::uint64_t pause_at = kNever;
  std::uint64_t pause_every = 0;  // 0: once
  ContinueWith continue_with = ContinueWith::kDefault;
};

struct Counters {
  std::uint64_t frames = 0;
  std::uint64_t default_frames = 0;
  std::uint64_t pauses = 0;
  std::uint64_t interrupts = 0;
  std::uint64_t interruptible = 0;
  std::uint64_t sourced_operands = 0;
  std::uint64_t wrong_sources = 0;
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

  // The result that an interrupted instruction waits for; null: it has none.
  Value pending;

  Value AdoptSlot(Activation& act, int slot) override { return Tag(NativeProtocols::AdoptSlot(act, slot)); }
  Value LoadGlobal(Activation& act, BorrowedRef name) override { return Tag(NativeProtocols::LoadGlobal(act, name)); }
  Value LoadDeref(Activation& act, int slot) override { return Tag(NativeProtocols::LoadDeref(act, slot)); }
  bool StoreDeref(Activation& act, int slot, ValueView value) override {
    return NativeProtocols::StoreDeref(act, slot, Checked(value));
  }
  Value MakeCell(Activation& act, int slot, ValueView initial) override {
    return Tag(NativeProtocols::MakeCell(act, slot, Checked(initial)));
  }
  Value LoadAttr(Activation& act, ValueView owner, BorrowedRef name) override {
    return Interruptible(act, Tag(NativeProtocols::LoadAttr(act, Checked(owner), name)));
  }
  Value LoadMethod(Activation& act, ValueView owner, BorrowedRef name, Value* self) override {
    return Interruptible(act, Tag(NativeProtocols::LoadMethod(act, Checked(owner), name, self)), self);
  }
  bool StoreAttr(Activation& act, ValueView owner, BorrowedRef name, ValueView value) override {
    return Interruptible(act, NativeProtocols::StoreAttr(act, Checked(owner), name, Checked(value)));
  }
  Value Binary(Activation& act, int nb_op, ValueView left, ValueView right) override {
    return Interruptible(act, Tag(NativeProtocols::Binary(act, nb_op, Checked(left), Checked(right))));
  }
  Value Compare(Activation& act, int py_op, ValueView left, ValueView right) override {
    return Interruptible(act, Tag(NativeProtocols::Compare(act, py_op, Checked(left), Checked(right))));
  }
  Truth IsTrue(Activation& act, ValueView v) override { return NativeProtocols::IsTrue(act, Checked(v)); }
  Value GetItem(Activation& act, ValueView container, ValueView key) override {
    return Interruptible(act, Tag(NativeProtocols::GetItem(act, Checked(container), Checked(key))));
  }
  bool SetItem(Activation& act, ValueView container, ValueView key, ValueView value) override {
    return Interruptible(act, NativeProtocols::SetItem(act, Checked(container), Checked(key), Checked(value)));
  }
  Value Call(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames) override {
    for (const ValueView& arg : args) Checked(arg);
    return Interruptible(act, Tag(NativeProtocols::Call(act, Checked(callable), args, kwnames)));
  }
  Value GetIter(Activation& act, ValueView v) override {
    return Interruptible(act, Tag(NativeProtocols::GetIter(act, Checked(v))));
  }
  ForIterOutcome ForIter(Activation& act, ValueView iterator, Value* item) override {
    const ForIterOutcome outcome = NativeProtocols::ForIter(act, Checked(iterator), item);
    *item = Tag(std::move(*item));
    return outcome;
  }
  SendOutcome Send(Activation& act, ValueView receiver, ValueView sent, Value* result) override {
    const SendOutcome outcome = NativeProtocols::Send(act, Checked(receiver), Checked(sent), result);
    *result = Tag(std::move(*result));
    return outcome;
  }
  bool UnpackSequence(Activation& act, ValueView v, absl::Span<Value> out) override {
    const bool ok = NativeProtocols::UnpackSequence(act, Checked(v), out);
    for (Value& value : out) value = Tag(std::move(value));
    return ok;
  }
  Value BuildTuple(Activation& act, absl::Span<const ValueView> items) override {
    for (const ValueView& item : items) Checked(item);
    return Tag(NativeProtocols::BuildTuple(act, items));
  }
  Value BuildList(Activation& act, absl::Span<const ValueView> items) override {
    for (const ValueView& item : items) Checked(item);
    return Tag(NativeProtocols::BuildList(act, items));
  }
  bool ListAppend(Activation& act, BorrowedRef list, ValueView item) override {
    return NativeProtocols::ListAppend(act, list, Checked(item));
  }
  Value MakeFunction(Activation& act, BorrowedRef code, ValueView defaults, ValueView kwdefaults, ValueView annotations,
                     ValueView closure) override {
    return Tag(NativeProtocols::MakeFunction(act, code, Checked(defaults), Checked(kwdefaults), Checked(annotations),
                                             Checked(closure)));
  }
  bool BeforeWith(Activation& act, ValueView manager, Value* exit, Value* entered) override {
    const bool ok = NativeProtocols::BeforeWith(act, Checked(manager), exit, entered);
    *exit = Tag(std::move(*exit));
    *entered = Tag(std::move(*entered));
    return ok;
  }
  Value CallExit(Activation& act, ValueView exit, ValueView self, BorrowedRef type, BorrowedRef exception,
                 BorrowedRef traceback) override {
    return Interruptible(act, Tag(NativeProtocols::CallExit(act, Checked(exit), self, type, exception, traceback)));
  }

 private:
  bool Interrupts(Activation& act, CallResult shape) {
    if (settings.interrupt_every == 0) return false;
    const Instruction& in = BytecodeOf(frame_ops::Code(act.frame))->At(act.instruction);
    if (CallResultOf(in) != shape) return false;
    if (++counters.interruptible % settings.interrupt_every != 0) return false;
    ++counters.interrupts;
    control.unwinding = true;
    return true;
  }
  // Keeps the result for the hook and leaves the frame in the middle of its instruction.
  Value Interruptible(Activation& act, Value value, Value* self = nullptr) {
    const bool beside_null = self != nullptr;
    if (!value.object || (beside_null && self->object)) return value;
    if (!Interrupts(act, beside_null ? CallResult::kPushedBesideNull : CallResult::kPushed)) return value;
    pending = std::move(value);
    return {};
  }
  bool Interruptible(Activation& act, bool ok) { return ok && !Interrupts(act, CallResult::kDropped); }

  static Value Tag(Value value) {
    if (settings.check_sources && value.object) value.source = TagOf(value.object.get());
    return value;
  }
  static ValueView Checked(ValueView value) {
    if (settings.check_sources && value.source != kNoSource) {
      ++counters.sourced_operands;
      if (value.source != TagOf(value.object.get())) ++counters.wrong_sources;
    }
    return value;
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

// Completes the interrupted instruction by hand, as a rebuilt frame's caller does.
void Complete(Activation& act, TestingProtocols& protocols) {
  protocols.control.unwinding = false;
  const Instruction& in = BytecodeOf(frame_ops::Code(act.frame))->At(act.instruction);
  PyObject** stack = frame_ops::Slots(act.frame) + frame_ops::SlotCount(frame_ops::Code(act.frame));
  for (int i = act.resume_depth; i < act.stack_depth; ++i) Py_CLEAR(stack[i]);
  int depth = act.resume_depth;
  const CallResult shape = CallResultOf(in);
  const bool beside_null = shape == CallResult::kPushedBesideNull;
  if (beside_null && !kNullOverCallable) stack[depth++] = nullptr;
  if (shape != CallResult::kDropped) stack[depth++] = protocols.pending.object.release();
  if (beside_null && kNullOverCallable) stack[depth++] = nullptr;
  frame_ops::SetStackDepth(act.frame, depth);
  frame_ops::SetNextInstruction(act.frame, act.next_instruction);
}

PyObject* EvaluateFrame(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag) {
  if (StartsGenerator(frame) || frame_ops::WatcherOf(thread) != frame_ops::Watcher::kNone) {
    ++counters.default_frames;
    return frame_ops::EvalDefault(thread, frame, throw_flag);
  }
  ++counters.frames;
  TestingProtocols& protocols = ProtocolsOfThread();
  StartAt start = throw_flag != 0 ? StartAt::kThrow : StartAt::kNext;
  for (;;) {
    Activation act;
    act.frame = frame;
    if (settings.check_sources) {
      // Wherever the frame stands, its slots are unseen.
      act.sources.assign(static_cast<std::size_t>(frame_ops::SlotCount(frame_ops::Code(frame))), kUnadopted);
    }
    RunResult result = Evaluate(thread, act, protocols, start);
    if (result.outcome == Outcome::kPaused) {
      if (settings.continue_with == ContinueWith::kDefault) return frame_ops::EvalDefault(thread, frame, 0);
      start = StartAt::kNext;
      continue;
    }
    if (result.outcome == Outcome::kUnwound) {
      Complete(act, protocols);
      if (settings.continue_with == ContinueWith::kDefault) return frame_ops::EvalDefault(thread, frame, 0);
      start = StartAt::kNext;
      continue;
    }
    if (result.outcome != Outcome::kYielded) frame_ops::FinishHookedFrame(thread, frame);
    return result.value.object.release();
  }
}

PyObject* Enable(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"pause_at",      "pause_every",     "continue_with",
                                      "check_sources", "interrupt_every", nullptr};
  long long pause_at = -1;
  long long pause_every = 0;
  const char* continue_with = "default";
  int check_sources = 0;
  long long interrupt_every = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|LLspL", const_cast<char**>(names), &pause_at, &pause_every,
                                   &continue_with, &check_sources, &interrupt_every)) {
    return nullptr;
  }
  settings.pause_at = pause_at < 0 ? kNever : static_cast<std::uint64_t>(pause_at);
  settings.pause_every = static_cast<std::uint64_t>(pause_every);
  settings.continue_with = std::string(continue_with) == "evaluate" ? ContinueWith::kEvaluate : ContinueWith::kDefault;
  settings.check_sources = check_sources != 0;
  settings.interrupt_every = static_cast<std::uint64_t>(interrupt_every);
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
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "instructions", number(ProtocolsOfThread().control.executed),
                       "frames", number(counters.frames), "default_frames", number(counters.default_frames), "pauses",
                       number(counters.pauses), "sourced_operands", number(counters.sourced_operands), "wrong_sources",
                       number(counters.wrong_sources), "interrupts", number(counters.interrupts));
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

// The line of each code unit, None for none.
PyObject* LinesOf(PyObject*, PyObject* object) {
  if (!IsCode(object)) return nullptr;
  auto* code = reinterpret_cast<PyCodeObject*>(object);
  Ref list = Ref::Steal(PyList_New(0));
  for (Py_ssize_t unit = 0; unit < Py_SIZE(code); ++unit) {
    const int line = LineOfUnit(code, static_cast<int>(unit));
    const Ref item = line < 0 ? Ref::Create(Py_None) : Ref::Steal(PyLong_FromLong(line));
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
    {"lines", LinesOf, METH_O, "The line of each code unit."},
    {"live_slots", LiveSlots, METH_O, "The live slots before each instruction."},
    {"opcodes", Opcodes, METH_NOARGS, "This Python's opcodes and whether the evaluator executes them."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "ff_evaluator_testing", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace framefuse

PyMODINIT_FUNC PyInit_ff_evaluator_testing() { return PyModule_Create(&framefuse::module); }
