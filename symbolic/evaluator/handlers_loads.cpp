// Moves between slots, the stack and constants; cells.
#include "symbolic/evaluator/handler_table.h"
#include "symbolic/evaluator/native_errors.h"

namespace framefuse {
namespace {

Step Nop(Execution&, const Instruction&) { return Step::kNext; }

Step PopTop(Execution& e, const Instruction&) {
  e.Drop(1);
  return Step::kNext;
}

Step PushNull(Execution& e, const Instruction&) {
  e.Push(nullptr, kNoSource);
  return Step::kNext;
}

Step Copy(Execution& e, const Instruction& in) {
  e.PushCopy(e.Peek(in.arg), e.PeekSource(in.arg));
  return Step::kNext;
}

Step Swap(Execution& e, const Instruction& in) {
  std::swap(e.Peek(1), e.Peek(in.arg));
  std::swap(e.PeekSource(1), e.PeekSource(in.arg));
  return Step::kNext;
}

Step LoadConst(Execution& e, const Instruction& in) {
  e.PushCopy(PyTuple_GET_ITEM(e.code->co_consts, in.arg), kNoSource);
  return Step::kNext;
}

Step LoadSmallInt(Execution& e, const Instruction& in) {
  return e.Replace(0, {Ref::Steal(PyLong_FromLong(in.arg)), kNoSource});
}

Step LoadCommonConstant(Execution& e, const Instruction& in) {
  e.PushCopy(frame_ops::CommonConstant(e.thread, in.arg), kNoSource);
  return Step::kNext;
}

Step LoadFast(Execution& e, const Instruction& in) {
  if (!e.Adopt(in.arg)) [[unlikely]] {
    return Step::kError;
  }
  PyObject* value = e.Slot(in.arg);
  if (value == nullptr) [[unlikely]] {
    SetUnboundLocalError(e.SlotName(in.arg));
    return Step::kError;
  }
  e.PushCopy(value, e.slot_sources[in.arg]);
  return Step::kNext;
}

// Slots of the instructions that the compiler makes of two: four bits each.
int FirstSlot(const Instruction& in) { return in.arg >> 4; }
int SecondSlot(const Instruction& in) { return in.arg & 15; }

// What LOAD_FAST needs before it can push the slot's value.
Step CheckBound(Execution& e, int slot) {
  if (!e.Adopt(slot)) return Step::kError;
  if (e.slots[slot] != nullptr) return Step::kNext;
  SetUnboundLocalError(e.SlotName(slot));
  return Step::kError;
}

Step LoadFastLoadFast(Execution& e, const Instruction& in) {
  for (const int slot : {FirstSlot(in), SecondSlot(in)}) {
    const Step step = CheckBound(e, slot);
    if (step != Step::kNext) [[unlikely]] {
      return step;
    }
  }
  for (const int slot : {FirstSlot(in), SecondSlot(in)}) e.PushCopy(e.Slot(slot), e.slot_sources[slot]);
  return Step::kNext;
}

Step LoadFastAndClear(Execution& e, const Instruction& in) {
  if (!e.Adopt(in.arg)) return Step::kError;
  e.Push(e.Slot(in.arg), e.slot_sources[in.arg]);
  e.slots[in.arg] = nullptr;
  e.slot_sources[in.arg] = kNoSource;
  return Step::kNext;
}

// A finaliser, or a weak reference to it.
bool MayBeSeenToEnd(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type->tp_finalize != nullptr ||
         (type->tp_weaklistoffset != 0 && *PyObject_GET_WEAKREFS_LISTPTR(object) != nullptr);
}

bool BeforeDrop(Execution& e, ValueView old) {
  return !old.object || !MayBeSeenToEnd(old.object) || e.protocols.BeforeDrop(e.act, old);
}
bool BeforeDrop(Execution& e, int slot) { return BeforeDrop(e, ValueView(e.Slot(slot), e.slot_sources[slot])); }

// The value on top becomes the slot's.
void MoveTopTo(Execution& e, int slot) {
  PyObject* old = e.Slot(slot);
  e.slots[slot] = e.Peek(1);
  e.slot_sources[slot] = e.PeekSource(1);
  --e.act.stack_depth;
  Py_XDECREF(old);
}

Step StoreFast(Execution& e, const Instruction& in) {
  if (!BeforeDrop(e, in.arg)) [[unlikely]] {
    return Step::kError;
  }
  MoveTopTo(e, in.arg);
  return Step::kNext;
}

Step StoreFastLoadFast(Execution& e, const Instruction& in) {
  const int stored = FirstSlot(in), loaded = SecondSlot(in);
  if (stored != loaded) {
    const Step step = CheckBound(e, loaded);
    if (step != Step::kNext) return step;
  }
  if (!BeforeDrop(e, stored)) return Step::kError;
  MoveTopTo(e, stored);
  e.PushCopy(e.Slot(loaded), e.slot_sources[loaded]);
  return Step::kNext;
}

Step StoreFastStoreFast(Execution& e, const Instruction& in) {
  const int first = FirstSlot(in), second = SecondSlot(in);
  if (!BeforeDrop(e, first)) return Step::kError;
  // Of `x, x = …` the second store drops what the first put there.
  if (first == second ? !BeforeDrop(e, e.View(1)) : !BeforeDrop(e, second)) return Step::kError;
  MoveTopTo(e, first);
  MoveTopTo(e, second);
  return Step::kNext;
}

Step DeleteFast(Execution& e, const Instruction& in) {
  const Step bound = CheckBound(e, in.arg);
  if (bound != Step::kNext) return bound;
  if (!BeforeDrop(e, in.arg)) return Step::kError;
  e.protocols.SeeWhetherBound(e.act, in.arg);
  PyObject* old = e.Slot(in.arg);
  e.slots[in.arg] = nullptr;
  e.slot_sources[in.arg] = kNoSource;
  Py_DECREF(old);
  return Step::kNext;
}

Step LoadClosure(Execution& e, const Instruction& in) {
  if (!e.Adopt(in.arg)) return Step::kError;
  e.PushCopy(e.Slot(in.arg), e.slot_sources[in.arg]);
  return Step::kNext;
}

Step MakeCell(Execution& e, const Instruction& in) {
  if (!e.Adopt(in.arg)) return Step::kError;
  PyObject* initial = e.Slot(in.arg);
  Value cell = e.protocols.MakeCell(e.act, in.arg, {initial, e.slot_sources[in.arg]});
  if (!cell) return Step::kError;
  e.slots[in.arg] = cell.object.release();
  e.slot_sources[in.arg] = cell.source;
  Py_XDECREF(initial);
  return Step::kNext;
}

Step CopyFreeVars(Execution& e, const Instruction& in) {
  PyObject* closure = frame_ops::Function(e.act.frame)->func_closure;
  const int first = frame_ops::SlotCount(e.code) - in.arg;
  for (int i = 0; i < in.arg; ++i) {
    e.slots[first + i] = Py_NewRef(PyTuple_GET_ITEM(closure, i));
    e.slot_sources[first + i] = kNoSource;
  }
  return Step::kNext;
}

Step LoadDeref(Execution& e, const Instruction& in) {
  if (!e.Adopt(in.arg)) return Step::kError;
  return e.Replace(0, e.protocols.LoadDeref(e.act, in.arg));
}

Step StoreDeref(Execution& e, const Instruction& in) {
  if (!e.Adopt(in.arg)) return Step::kError;
  return e.Done(e.protocols.StoreDeref(e.act, in.arg, e.View(1)), 1);
}

Step DeleteDeref(Execution& e, const Instruction& in) {
  if (!e.Adopt(in.arg)) return Step::kError;
  return e.Done(e.protocols.DeleteDeref(e.act, in.arg), 0);
}

Step LoadClassDeref(Execution& e, const Instruction& in) {
  if (!e.Adopt(in.arg)) return Step::kError;
  return e.Replace(0, e.protocols.LoadClassDeref(e.act, in.arg));
}

Step LoadFromDictOrDeref(Execution& e, const Instruction& in) {
  if (!e.Adopt(in.arg)) return Step::kError;
  return e.Replace(1, e.protocols.LoadFromDictOrDeref(e.act, e.View(1), in.arg));
}

Step LoadAssertionError(Execution& e, const Instruction&) {
  e.PushCopy(PyExc_AssertionError, kNoSource);
  return Step::kNext;
}

}  // namespace

void AddLoadHandlers(HandlerTable& table) {
  table.Add(Opcode::kNop, Nop);
  table.Add(Opcode::kPopTop, PopTop);
  table.Add(Opcode::kPushNull, PushNull);
  table.Add(Opcode::kCopy, Copy);
  table.Add(Opcode::kSwap, Swap);
  table.Add(Opcode::kLoadConst, LoadConst);
  table.Add(Opcode::kLoadSmallInt, LoadSmallInt);
  table.Add(Opcode::kLoadCommonConstant, LoadCommonConstant);
  table.Add(Opcode::kLoadFast, LoadFast);
  table.Add(Opcode::kLoadFastCheck, LoadFast);
  table.Add(Opcode::kLoadFastLoadFast, LoadFastLoadFast);
  table.Add(Opcode::kLoadFastAndClear, LoadFastAndClear);
  table.Add(Opcode::kStoreFast, StoreFast);
  table.Add(Opcode::kStoreFastLoadFast, StoreFastLoadFast);
  table.Add(Opcode::kStoreFastStoreFast, StoreFastStoreFast);
  table.Add(Opcode::kDeleteFast, DeleteFast);
  table.Add(Opcode::kLoadClosure, LoadClosure);
  table.Add(Opcode::kMakeCell, MakeCell);
  table.Add(Opcode::kCopyFreeVars, CopyFreeVars);
  table.Add(Opcode::kLoadDeref, LoadDeref);
  table.Add(Opcode::kStoreDeref, StoreDeref);
  table.Add(Opcode::kDeleteDeref, DeleteDeref);
  table.Add(Opcode::kLoadClassDeref, LoadClassDeref);
  table.Add(Opcode::kLoadFromDictOrDeref, LoadFromDictOrDeref);
  table.Add(Opcode::kLoadAssertionError, LoadAssertionError);
}

}  // namespace framefuse
