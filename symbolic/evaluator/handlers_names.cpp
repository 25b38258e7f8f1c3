// Globals, names of class bodies and modules, attributes, imports.
#include "symbolic/evaluator/handler_table.h"

namespace framefuse {
namespace {

Step LoadGlobal(Execution& e, const Instruction& in) {
  Value value = e.protocols.LoadGlobal(e.act, e.Name(in.arg >> 1));
  if (!value) [[unlikely]] {
    return Step::kError;
  }
  if ((in.arg & 1) != 0) {
    e.PushCallable(std::move(value), {});
  } else {
    e.Push(std::move(value));
  }
  return Step::kNext;
}

Step StoreGlobal(Execution& e, const Instruction& in) {
  return e.Done(e.protocols.StoreGlobal(e.act, e.Name(in.arg), e.View(1)), 1);
}
Step DeleteGlobal(Execution& e, const Instruction& in) {
  return e.Done(e.protocols.DeleteGlobal(e.act, e.Name(in.arg)), 0);
}
Step LoadName(Execution& e, const Instruction& in) { return e.Replace(0, e.protocols.LoadName(e.act, e.Name(in.arg))); }
Step StoreName(Execution& e, const Instruction& in) {
  return e.Done(e.protocols.StoreName(e.act, e.Name(in.arg), e.View(1)), 1);
}
Step DeleteName(Execution& e, const Instruction& in) {
  return e.Done(e.protocols.DeleteName(e.act, e.Name(in.arg)), 0);
}
Step LoadFromDictOrGlobals(Execution& e, const Instruction& in) {
  return e.Replace(1, e.protocols.LoadFromDictOrGlobals(e.act, e.View(1), e.Name(in.arg)));
}
Step LoadBuildClass(Execution& e, const Instruction&) { return e.Replace(0, e.protocols.LoadBuildClass(e.act)); }
Step LoadLocals(Execution& e, const Instruction&) { return e.Replace(0, e.protocols.LoadLocals(e.act)); }
Step SetupAnnotations(Execution& e, const Instruction&) { return e.Done(e.protocols.SetupAnnotations(e.act), 0); }

// `if o.name`: the attribute and the jump that looks at it in one step, where nobody asks to stop between them.
std::optional<Step> TestAttr(Execution& e, const Instruction& in) {
  const int to_bool = e.next->opcode == Opcode::kToBool ? 1 : 0;  // from 3.13 on
  const Instruction& jump = e.next[to_bool];
  const bool jump_if = jump.opcode == Opcode::kPopJumpIfTrue;
  if (!jump_if && jump.opcode != Opcode::kPopJumpIfFalse) return std::nullopt;
  const std::uint64_t next = e.control.executed;
  if (e.control.stop_at == next || e.control.stop_at == next + static_cast<std::uint64_t>(to_bool)) return std::nullopt;
  const std::optional<bool> truth = e.protocols.TruthOfAttr(e.act, e.View(1), e.Name(in.arg));
  if (!truth) return std::nullopt;
  e.control.executed += static_cast<std::uint64_t>(1 + to_bool);
  e.next = &jump + 1;
  e.Drop(1);
  return e.Branch(jump, *truth == jump_if);
}

Step LoadAttr(Execution& e, const Instruction& in) {
  if (const std::optional<Step> tested = TestAttr(e, in)) return *tested;
  return e.Replace(1, e.protocols.LoadAttr(e.act, e.View(1), e.Name(in.arg)));
}

// Without a self the method is bound, or none.
Step PushMethod(Execution& e, int pops, Value method, Value self) {
  if (!method) return Step::kError;
  e.Drop(pops);
  e.PushCallable(std::move(method), std::move(self));
  return Step::kNext;
}

Step LoadMethod(Execution& e, const Instruction& in) {
  Value self;
  Value method = e.protocols.LoadMethod(e.act, e.View(1), e.Name(in.arg), &self);
  return PushMethod(e, 1, std::move(method), std::move(self));
}

Step LoadSuperAttr(Execution& e, const Instruction& in) {
  const bool is_method = (in.arg & 1) != 0;
  Value self;
  Value value = e.protocols.LoadSuperAttr(e.act, e.View(3), e.View(2), e.View(1), e.Name(in.arg >> 2),
                                          (in.arg & 2) != 0, is_method, &self);
  if (!is_method) return e.Replace(3, std::move(value));
  return PushMethod(e, 3, std::move(value), std::move(self));
}

Step StoreAttr(Execution& e, const Instruction& in) {
  return e.Done(e.protocols.StoreAttr(e.act, e.View(1), e.Name(in.arg), e.View(2)), 2);
}
Step DeleteAttr(Execution& e, const Instruction& in) {
  return e.Done(e.protocols.DeleteAttr(e.act, e.View(1), e.Name(in.arg)), 1);
}

Step ImportName(Execution& e, const Instruction& in) {
  return e.Replace(2, e.protocols.ImportName(e.act, e.Name(in.arg), e.View(1), e.View(2)));
}
Step ImportFrom(Execution& e, const Instruction& in) {
  return e.Replace(0, e.protocols.ImportFrom(e.act, e.View(1), e.Name(in.arg)));
}
Step ImportStar(Execution& e, const Instruction&) { return e.Done(e.protocols.ImportStar(e.act, e.View(1)), 1); }

}  // namespace

void AddNameHandlers(HandlerTable& table) {
  table.Add(Opcode::kLoadGlobal, LoadGlobal);
  table.Add(Opcode::kStoreGlobal, StoreGlobal);
  table.Add(Opcode::kDeleteGlobal, DeleteGlobal);
  table.Add(Opcode::kLoadName, LoadName);
  table.Add(Opcode::kStoreName, StoreName);
  table.Add(Opcode::kDeleteName, DeleteName);
  table.Add(Opcode::kLoadFromDictOrGlobals, LoadFromDictOrGlobals);
  table.Add(Opcode::kLoadBuildClass, LoadBuildClass);
  table.Add(Opcode::kLoadLocals, LoadLocals);
  table.Add(Opcode::kSetupAnnotations, SetupAnnotations);
  table.Add(Opcode::kLoadAttr, LoadAttr);
  table.Add(Opcode::kLoadMethod, LoadMethod);
  table.Add(Opcode::kLoadSuperAttr, LoadSuperAttr);
  table.Add(Opcode::kStoreAttr, StoreAttr);
  table.Add(Opcode::kDeleteAttr, DeleteAttr);
  table.Add(Opcode::kImportName, ImportName);
  table.Add(Opcode::kImportFrom, ImportFrom);
  table.Add(Opcode::kImportStar, ImportStar);
}

}  // namespace framefuse
