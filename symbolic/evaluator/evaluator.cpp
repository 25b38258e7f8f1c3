#include "symbolic/evaluator/evaluator.h"

#include "frame_eval/versions/opcode_table.h"
#include "symbolic/evaluator/execution.h"
#include "symbolic/evaluator/handler_table.h"

namespace framefuse {

Execution::Execution(PyThreadState* thread_state, Activation& activation, Protocols& meaning)
    : thread(thread_state),
      act(activation),
      protocols(meaning),
      control(meaning.control),
      code(frame_ops::Code(act.frame)),
      bytecode(BytecodeOf(code)),
      slots(frame_ops::Slots(act.frame)),
      stack(slots + frame_ops::SlotCount(code)) {
  if (bytecode == nullptr) return;
  instructions = bytecode->instructions().data();
  const int places = frame_ops::SlotCount(code) + code->co_stacksize;
  const auto size = static_cast<std::size_t>(places);
  if (act.sources.size() < size) act.sources.resize(size, kNoSource);
  slot_sources = act.sources.data();
  stack_sources = slot_sources + frame_ops::SlotCount(code);
}

bool Execution::AdoptSlot(int slot) {
  if (slots[slot] == nullptr) {  // unbound
    slot_sources[slot] = kNoSource;
    protocols.SeeWhetherBound(act, slot);
    return true;
  }
  Value adopted = protocols.AdoptSlot(act, slot);
  if (!adopted) return false;
  slot_sources[slot] = adopted.source;
  return true;
}

namespace {

// One run of a linked frame.
class Run {
 public:
  explicit Run(Execution& execution)
      : e_(execution),
        handlers_(HandlerTable::Get().data()),
        units_(frame_ops::CodeUnits(execution.code)),
        last_instruction_(frame_ops::LastInstructionField(execution.act.frame)) {}

  Outcome Execute() {
    for (;;) {
      const Instruction& in = *e_.next;
      if (e_.control.executed == e_.control.stop_at) [[unlikely]] {
        const StopAction action = e_.control.unwinding ? StopAction::kUnwind : Stop(in);
        if (action == StopAction::kPause) return Outcome::kPaused;
        if (action == StopAction::kUnwind || e_.control.unwinding) return Unwound();
      }
      ++e_.control.executed;
      e_.next = &in + 1;
      if (MoveOnly(in)) continue;
      Begin(in);
      *last_instruction_ = units_ + in.index;
      const Step step = handlers_[static_cast<int>(in.opcode)](e_, in);
      if (step == Step::kNext) [[likely]] {
        continue;
      }
      if (e_.control.unwinding) return Unwound();  // before any exception table is looked at
      switch (step) {
        case Step::kNext:
          break;
        case Step::kReturn:
          return Outcome::kReturned;
        case Step::kYield:
          return Outcome::kYielded;
        case Step::kError:
        case Step::kReraise:
          if (!HandleError(in.index, step == Step::kError)) return Outcome::kRaised;
          break;
      }
    }
  }

  // Goes on at the handler of the current error; false: none, and the stack is empty.
  bool HandleError(int index, bool add_traceback) {
    if (add_traceback) frame_ops::AddTraceback(e_.thread, e_.act.frame);
    const ExceptionHandler* handler = e_.bytecode->FindHandler(index);
    if (handler == nullptr) {
      e_.Drop(e_.act.stack_depth);
      return false;
    }
    e_.Drop(e_.act.stack_depth - handler->depth);
    if (handler->push_last_instruction) {
      // RERAISE puts it back, so that the line of the first raise is shown.
      e_.Push(PyLong_FromLong(frame_ops::LastInstruction(e_.act.frame)), kNoSource);
    }
    e_.Push(frame_ops::FetchRaised(e_.thread).release(), kNoSource);
    e_.JumpTo(e_.bytecode->PositionOf(handler->target));
    return true;
  }

 private:
  void Begin(const Instruction& in) {
    e_.act.instruction = in.start;
    e_.act.next_instruction = in.next;
    e_.act.started = e_.control.executed - 1;  // this instruction has been counted
    e_.act.resume_depth = e_.act.stack_depth - in.pops;
  }
  // The two commonest instructions, where they neither fail nor run any code; their handlers do the rest.
  bool MoveOnly(const Instruction& in) {
    if (in.opcode == Opcode::kLoadFast) {
      PyObject* value = e_.Slot(in.arg);
      const SourceId source = e_.slot_sources[in.arg];
      if (value == nullptr || source == kUnadopted) return false;
      e_.PushCopy(value, source);
      return true;
    }
    if (in.opcode == Opcode::kLoadConst) {
      e_.PushCopy(PyTuple_GET_ITEM(e_.code->co_consts, in.arg), kNoSource);
      return true;
    }
    return false;
  }
  // The frame's next instruction is the one that would execute: OnStop may look at the frame as it stands.
  StopAction Stop(const Instruction& in) {
    Begin(in);
    frame_ops::SetNextInstruction(e_.act.frame, in.start);
    return e_.protocols.OnStop(e_.act);
  }
  // The run is over: no handler runs any more, and Python sees no error of ours.
  Outcome Unwound() {
    PyErr_Clear();
    e_.result = Value();
    return Outcome::kUnwound;
  }

  Execution& e_;
  const Handler* handlers_;
  frame_ops::CodeUnit* units_;
  frame_ops::CodePointer* last_instruction_;
};

}  // namespace

RunResult Evaluate(PyThreadState* thread, Activation& act, Protocols& protocols, StartAt start) {
  if (protocols.control.unwinding) {
    PyErr_Clear();
    return {Outcome::kUnwound, {}};
  }
  Execution execution(thread, act, protocols);
  if (execution.bytecode == nullptr) return {Outcome::kRaised, {}};
  act.stack_depth = frame_ops::StackDepth(act.frame);
  const int next = frame_ops::NextInstruction(act.frame);
  frame_ops::Linkage linkage;
  if (!frame_ops::Enter(thread, act.frame, &linkage)) return {Outcome::kRaised, {}};
  Run run(execution);
  Outcome outcome = Outcome::kRaised;
  if (start == StartAt::kNext) {
    execution.JumpTo(execution.bytecode->PositionOf(next));
    outcome = run.Execute();
  } else {
    // What a generator is thrown into is shown where it stands; any other frame, where it last was.
    if (!frame_ops::IsGenerator(act.frame)) frame_ops::SetLastInstruction(act.frame, next - 1);
    if (run.HandleError(next - 1, true)) outcome = run.Execute();
  }
  frame_ops::SetStackDepth(act.frame, act.stack_depth);
  frame_ops::Leave(thread, act.frame, &linkage);
  if (outcome == Outcome::kYielded) frame_ops::SuspendGenerator(thread, act.frame);
  return {outcome, std::move(execution.result)};
}

bool HandlesOpcode(int opcode) {
  if (opcode < 0 || opcode > 255) return false;
  if (IsExtendedArg(static_cast<std::uint8_t>(opcode))) return true;
  const RawOpcode& raw = RawOpcodeOf(static_cast<std::uint8_t>(opcode));
  if (raw.name == nullptr) return false;
  if (raw.opcode == Opcode::kKwNames || raw.opcode == Opcode::kPrecall) return true;
  return HandlerTable::Get()[raw.opcode] != nullptr;
}

const char* OpcodeName(int opcode) {
  if (opcode < 0 || opcode > 255) return "";
  const auto number = static_cast<std::uint8_t>(opcode);
  if (IsExtendedArg(number)) return "EXTENDED_ARG";
  const char* name = RawOpcodeOf(number).name;
  return name == nullptr ? "" : name;
}

}  // namespace framefuse
