#include "symbolic/frames/indexed_arguments.h"

#include <vector>

#include "frame_eval/bytecode/decode.h"
#include "frame_eval/bytecode/liveness.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {
namespace {

bool IsSlotOfArgs(PyCodeObject* code, int slot) {
  return (code->co_flags & CO_VARARGS) != 0 && slot == code->co_argcount + code->co_kwonlyargcount &&
         !IsCellSlot(code, slot);
}

// Whether the global `name` is builtins' len().
bool IsLen(frame_ops::Frame* frame, PyObject* name) {
  if (PyUnicode_CompareWithASCIIString(name, "len") != 0) return false;
  PyObject* builtins = frame_ops::Builtins(frame);
  PyObject* globals = frame_ops::Globals(frame);
  if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins) || PyDict_GetItem(globals, name) != nullptr) {
    return false;
  }
  PyObject* found = PyDict_GetItem(builtins, name);
  const CallRule* rule = found == nullptr ? nullptr : FindCallRule(found);
  return rule != nullptr && rule->kind == CallRule::Kind::kSpecial && rule->special == SpecialCall::kLen;
}

// Whether the instruction leaves the slot's value on top and does nothing else with the slot.
bool LoadsLast(const Instruction& in, int slot) {
  if (in.opcode == Opcode::kLoadFast) return true;
  const bool of_two = in.opcode == Opcode::kLoadFastLoadFast || in.opcode == Opcode::kStoreFastLoadFast;
  return of_two && (in.arg & 15) == slot && in.arg >> 4 != slot;
}

bool LoadsNumber(const Instruction& in, PyCodeObject* code) {
  return in.opcode == Opcode::kLoadSmallInt ||
         (in.opcode == Opcode::kLoadConst && PyLong_CheckExact(PyTuple_GET_ITEM(code->co_consts, in.arg)));
}

}  // namespace

bool IsOnlyIndexed(frame_ops::Frame* frame, int slot) {
  PyCodeObject* code = frame_ops::Code(frame);
  const Bytecode* bytecode = IsSlotOfArgs(code, slot) ? BytecodeOf(code) : nullptr;
  if (bytecode == nullptr) return false;
  const std::vector<Instruction>& all = bytecode->instructions();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].opcode == Opcode::kStoreGlobal) return false;
    if (!MentionsSlot(all[i], slot)) continue;
    if (!LoadsLast(all[i], slot) || i == 0 || i + 2 >= all.size()) return false;
    const Instruction &before = all[i - 1], &next = all[i + 1];
    const bool index = LoadsNumber(next, code) && all[i + 2].opcode == Opcode::kBinarySubscr;
    const bool length = all[i].opcode == Opcode::kLoadFast && before.opcode == Opcode::kLoadGlobal &&
                        next.opcode == Opcode::kCall && next.arg == 1 && next.kwnames < 0 &&
                        IsLen(frame, PyTuple_GET_ITEM(code->co_names, before.arg >> 1));
    if (!index && !length) return false;
  }
  return true;
}

}  // namespace framefuse
