// Execution: the registers of one Evaluate call, and the stack operations that instruction handlers are made of.
// Internal to symbolic/evaluator.
// Invariant: operands stay on the frame's stack, with their sources, until the instruction has succeeded; a handler
// that fails leaves the stack as it found it.
#ifndef FRAMEFUSE_SYMBOLIC_EVALUATOR_EXECUTION_H_
#define FRAMEFUSE_SYMBOLIC_EVALUATOR_EXECUTION_H_

#include <cstdint>

#include "absl/container/fixed_array.h"
#include "frame_eval/bytecode/decode.h"
#include "frame_eval/versions/opcode_table.h"
#include "symbolic/evaluator/protocols.h"

namespace framefuse {

// How a handler ends.
enum class [[nodiscard]] Step : std::uint8_t{
    kNext,     // go on at Execution::next
    kError,    // a Python error was raised here, or the run is unwinding: Run::Execute tells them apart
    kReraise,  // the Python error has its traceback entry already
    kReturn,   // `result` is the frame's return value
    kYield,    // `result` was yielded
};

class Execution {
 public:
  Execution(PyThreadState* thread, Activation& act, Protocols& protocols);

  // ---- the stack; 1 is its top
  PyObject*& Peek(int from_top) { return stack[act.stack_depth - from_top]; }
  SourceId& PeekSource(int from_top) { return stack_sources[act.stack_depth - from_top]; }
  ValueView View(int from_top) { return {Peek(from_top), PeekSource(from_top)}; }
  void Push(PyObject* owned, SourceId source) {
    stack[act.stack_depth] = owned;
    stack_sources[act.stack_depth] = source;
    ++act.stack_depth;
  }
  void Push(Value value) {
    const SourceId source = value.source;
    Push(value.object.release(), source);
  }
  void PushCopy(PyObject* borrowed, SourceId source) {
    Py_XINCREF(borrowed);
    Push(borrowed, source);
  }
  // What a call that follows takes: two entries, `self` may be null.
  void PushCallable(Value callable, Value self) {
    if (!self.object && !kNullOverCallable) Push(nullptr, kNoSource);
    const bool null_on_top = !self.object && kNullOverCallable;
    Push(std::move(callable));
    if (self.object) Push(std::move(self));
    if (null_on_top) Push(nullptr, kNoSource);
  }
  // Pops `count` entries. The depth is lowered first: a finaliser may look at it.
  void Drop(int count) {
    act.stack_depth -= count;
    PyObject** dropped = stack + act.stack_depth;
    for (int i = 0; i < count; ++i) Py_XDECREF(dropped[i]);
  }

  // ---- ends of an instruction
  // Pops the operands and pushes the result, if there is one.
  Step Replace(int pops, Value result) {
    if (!result.object) [[unlikely]] {
      return Step::kError;
    }
    Drop(pops);
    Push(std::move(result));
    return Step::kNext;
  }
  Step Done(bool ok, int pops) {
    if (!ok) [[unlikely]] {
      return Step::kError;
    }
    Drop(pops);
    return Step::kNext;
  }
  Step PushBool(Truth truth, int pops, bool negate = false) {
    if (truth == Truth::kError) [[unlikely]] {
      return Step::kError;
    }
    Drop(pops);
    PushCopy((truth == Truth::kTrue) != negate ? Py_True : Py_False, kNoSource);
    return Step::kNext;
  }
  void JumpTo(std::int32_t position) { next = instructions + position; }
  // Signals and the like, where CPython's evaluator serves them.
  Step ServePendingWork() {
    if (!control.serves_pending_work || !frame_ops::HasPendingWork(thread)) [[likely]] {
      return Step::kNext;
    }
    return frame_ops::HandlePendingWork(thread) == 0 ? Step::kNext : Step::kError;
  }

  // A conditional jump backwards closes a loop.
  Step Branch(const Instruction& in, bool taken) {
    if (!taken) return Step::kNext;
    JumpTo(in.target);
    return next <= &in ? ServePendingWork() : Step::kNext;
  }

  // ---- slots and names
  PyObject* Slot(int slot) const { return frame_ops::Untagged(slots[slot]); }
  // Adopts a slot that has not been looked at yet.
  [[nodiscard]] bool Adopt(int slot) {
    if (slot_sources[slot] != kUnadopted) [[likely]] {
      return true;
    }
    return AdoptSlot(slot);
  }
  PyObject* Name(int index) const { return PyTuple_GET_ITEM(code->co_names, index); }
  PyObject* SlotName(int slot) const { return PyTuple_GET_ITEM(code->co_localsplusnames, slot); }

  PyThreadState* thread;
  Activation& act;
  Protocols& protocols;
  Control& control;
  PyCodeObject* code;
  const Bytecode* bytecode;
  const Instruction* instructions = nullptr;
  const Instruction* next = nullptr;
  PyObject** slots;
  PyObject** stack;
  SourceId* slot_sources = nullptr;
  SourceId* stack_sources = nullptr;
  Value result;

 private:
  [[nodiscard]] bool AdoptSlot(int slot);
};

using Handler = Step (*)(Execution& e, const Instruction& in);

// Values lent to a protocol, from consecutive stack entries.
class Operands {
 public:
  // `count` entries, the lowest of which is `from_top`.
  Operands(Execution& e, int from_top, int count) : views_(static_cast<std::size_t>(count)) {
    PyObject* const* object = &e.Peek(from_top);
    const SourceId* source = &e.PeekSource(from_top);
    for (ValueView& view : views_) view = ValueView(*object++, *source++);
  }
  operator absl::Span<const ValueView>() const { return absl::MakeConstSpan(views_); }  // NOLINT(runtime/explicit)

 private:
  absl::FixedArray<ValueView, 8> views_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EVALUATOR_EXECUTION_H_
