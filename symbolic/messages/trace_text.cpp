#include "symbolic/messages/trace_text.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "guards/text.h"
#include "symbolic/messages/code_text.h"

namespace framefuse {
namespace {

constexpr std::size_t kLongest = 60;
constexpr int kMostValues = 4;

std::string Shortened(std::string text) {
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "…";
  return text;
}

std::string ValueText(PyObject* value) {
  if (value == nullptr) return "-";
  if (!THPVariable_Check(value)) return Shortened(ReprText(value));
  const at::Tensor& tensor = THPVariable_Unpack(value);
  std::ostringstream text;
  text << "Tensor " << c10::toString(tensor.scalar_type()) << tensor.sym_sizes();
  return text.str();
}

// What the argument of an instruction means; empty: a number, or nothing.
std::string ArgumentText(PyCodeObject* code, const Bytecode& bytecode, const Instruction& i) {
  const std::string name = NameOf(i.opcode);
  const auto of = [&](PyObject* tuple) {
    return tuple != nullptr && i.arg >= 0 && i.arg < PyTuple_GET_SIZE(tuple) ? PyTuple_GET_ITEM(tuple, i.arg) : nullptr;
  };
  if (i.target >= 0) return absl::StrCat("to ", bytecode.instructions()[static_cast<std::size_t>(i.target)].start * 2);
  PyObject* found = nullptr;
  // Its lowest bit says something else.
  if (i.opcode == Opcode::kLoadGlobal) return PlainText(PyTuple_GET_ITEM(code->co_names, i.arg >> 1));
  if (name.find("CONST") != std::string::npos) found = of(code->co_consts);
  if (name.find("FAST") != std::string::npos || name.find("DEREF") != std::string::npos) {
    return PlainText(of(code->co_localsplusnames));
  }
  for (const char* part : {"ATTR", "GLOBAL", "NAME", "METHOD"}) {
    if (name.find(part) != std::string::npos) return PlainText(of(code->co_names));
  }
  return found == nullptr ? "" : Shortened(ReprText(found));
}

}  // namespace

std::string InstructionText(PyCodeObject* code, const Bytecode& bytecode, const Instruction& instruction) {
  std::string text = NameOf(instruction.opcode);
  const std::string meaning = ArgumentText(code, bytecode, instruction);
  if (!meaning.empty()) absl::StrAppend(&text, " ", meaning);
  if (meaning.empty() && instruction.arg != 0) absl::StrAppend(&text, " ", instruction.arg);
  return text;
}

std::string TraceText(const Activation& act) {
  PyCodeObject* code = frame_ops::Code(act.frame);
  const Bytecode* bytecode = BytecodeOf(code);
  if (bytecode == nullptr) {
    PyErr_Clear();
    return "";
  }
  const int line = LineOf(code, act.instruction);
  std::string text = absl::StrFormat("%s:%d in %s: %4d %-40s", FileNameOf(code), line > 0 ? line : code->co_firstlineno,
                                     QualifiedNameOf(code), act.instruction * 2,
                                     InstructionText(code, *bytecode, bytecode->At(act.instruction)));
  PyObject** stack = frame_ops::Slots(act.frame) + frame_ops::SlotCount(code);
  const int depth = act.stack_depth;
  if (depth > 0) absl::StrAppend(&text, depth > kMostValues ? " […, " : " [");
  for (int i = std::max(0, depth - kMostValues); i < depth; ++i) {
    absl::StrAppend(&text, ValueText(stack[i]), i + 1 < depth ? ", " : "]");
  }
  return text;
}

}  // namespace framefuse
