#include "frame_eval/bytecode/decode.h"

#include <algorithm>
#include <cstddef>

#include "frame_eval/bytecode/liveness.h"
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/opcode_table.h"

namespace framefuse {
namespace {

// Reads the exception table's numbers: six bits a byte, most significant first, bit 6 says that more follow.
class VarintReader {
 public:
  VarintReader(const std::uint8_t* begin, const std::uint8_t* end) : next_(begin), end_(end) {}
  bool done() const { return next_ >= end_; }
  int Read() {
    int value = 0;
    while (next_ < end_) {
      const std::uint8_t byte = *next_++;
      value = (value << 6) | (byte & 63);
      if ((byte & 64) == 0) break;
    }
    return value;
  }

 private:
  const std::uint8_t* next_;
  const std::uint8_t* end_;
};

void FreeBytecode(void* extra) { delete static_cast<Bytecode*>(extra); }

Py_ssize_t ExtraIndex() {
  static const Py_ssize_t index = frame_ops::NewCodeExtraIndex(FreeBytecode);
  return index;
}

}  // namespace

int PopsOf(Opcode opcode, [[maybe_unused]] int arg) {
  switch (opcode) {
#define FF_OPCODE(name, text, pops, slots, after) \
  case Opcode::k##name:                           \
    return pops;
#include "frame_eval/bytecode/opcodes.def"
#undef FF_OPCODE
  }
  return 0;
}

SlotUse SlotUseOf(Opcode opcode) {
  static constexpr SlotUse kUses[] = {
#define FF_OPCODE(name, text, pops, slots, after) SlotUse::k##slots,
#include "frame_eval/bytecode/opcodes.def"
#undef FF_OPCODE
  };
  return kUses[static_cast<int>(opcode)];
}

bool FallsThrough(Opcode opcode) {
  enum class After : std::uint8_t { kNext, kEnds };
  static constexpr After kAfter[] = {
#define FF_OPCODE(name, text, pops, slots, after) After::k##after,
#include "frame_eval/bytecode/opcodes.def"
#undef FF_OPCODE
  };
  return kAfter[static_cast<int>(opcode)] == After::kNext;
}

Bytecode::Bytecode() = default;
Bytecode::~Bytecode() = default;

void Bytecode::ReadInstructions(const std::uint8_t* bytes, int unit_count) {
  positions_.resize(static_cast<std::size_t>(unit_count));
  std::vector<int> target_indices;
  int start = 0;
  int prefix = 0;
  int kwnames = -1;
  for (int i = 0; i < unit_count;) {
    const std::uint8_t* const unit = bytes + std::ptrdiff_t{2} * i;
    const std::uint8_t raw = unit[0];
    const int raw_arg = (prefix << 8) | unit[1];
    if (IsExtendedArg(raw)) {
      prefix = raw_arg;
      ++i;
      continue;
    }
    prefix = 0;
    const RawOpcode& info = RawOpcodeOf(raw);
    const int next = std::min(i + 1 + info.caches, unit_count);
    const auto [opcode, arg] = Normalise(info.opcode, raw_arg);
    if (opcode == Opcode::kKwNames || opcode == Opcode::kPrecall) {
      if (opcode == Opcode::kKwNames) kwnames = arg;
      i = next;
      continue;  // `start` stays: the CALL takes all
    }
    Instruction in;
    in.opcode = opcode;
    in.raw = raw;
    in.arg = arg;
    in.pops = static_cast<std::uint16_t>(PopsOf(opcode, arg));
    in.kwnames = std::exchange(kwnames, -1);
    in.start = start;
    in.index = i;
    in.next = next;
    const int position = static_cast<int>(instructions_.size());
    std::fill(positions_.begin() + start, positions_.begin() + next, position);
    target_indices.push_back(info.jump == JumpKind::kNone      ? -1
                             : info.jump == JumpKind::kForward ? next + raw_arg
                                                               : next - raw_arg);
    instructions_.push_back(in);
    i = start = next;
  }
  ResolveTargets(target_indices);
}

void Bytecode::ResolveTargets(const std::vector<int>& target_indices) {
  for (std::size_t i = 0; i < instructions_.size(); ++i) {
    const int index = target_indices[i];
    if (index < 0 || index >= unit_count()) continue;
    int target = PositionOf(index);
    // An exhausted loop steps over the END_FOR that only other ways of leaving the loop need, and over the POP_TOP of
    // the iterator where END_FOR does not drop that.
    const Instruction& at_target = instructions_[static_cast<std::size_t>(target)];
    if (instructions_[i].opcode == Opcode::kForIter && at_target.opcode == Opcode::kEndFor) {
      target += at_target.pops == 2 ? 1 : 2;
    }
    instructions_[i].target = target;
  }
}

bool Bytecode::ReadHandlers(PyObject* table) {
  if (!PyBytes_Check(table)) return false;
  const auto* begin = reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(table));
  VarintReader reader(begin, begin + PyBytes_GET_SIZE(table));
  while (!reader.done()) {
    ExceptionHandler handler;
    handler.start = reader.Read();
    handler.end = handler.start + reader.Read();
    handler.target = reader.Read();
    const int depth_and_flag = reader.Read();
    handler.depth = depth_and_flag >> 1;
    handler.push_last_instruction = (depth_and_flag & 1) != 0;
    handlers_.push_back(handler);
  }
  return true;
}

const ExceptionHandler* Bytecode::FindHandler(int index) const {
  // Sorted by start and disjoint.
  auto after = std::upper_bound(handlers_.begin(), handlers_.end(), index,
                                [](int i, const ExceptionHandler& handler) { return i < handler.start; });
  if (after == handlers_.begin()) return nullptr;
  const ExceptionHandler& handler = *std::prev(after);
  return index < handler.end ? &handler : nullptr;
}

std::unique_ptr<Bytecode> Decode(PyCodeObject* code) {
  Ref bytes = Ref::Steal(PyCode_GetCode(code));
  if (!bytes) return nullptr;
  std::unique_ptr<Bytecode> bytecode(new Bytecode());
  bytecode->ReadInstructions(reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(bytes.get())),
                             static_cast<int>(PyBytes_GET_SIZE(bytes.get()) / 2));
  if (!bytecode->ReadHandlers(code->co_exceptiontable)) {
    PyErr_SetString(PyExc_SystemError, "framefuse: a code object without an exception table");
    return nullptr;
  }
  return bytecode;
}

const Bytecode* BytecodeOf(PyCodeObject* code) {
  const Py_ssize_t index = ExtraIndex();
  if (void* extra = frame_ops::CodeExtra(code, index)) return static_cast<const Bytecode*>(extra);
  std::unique_ptr<Bytecode> bytecode = Decode(code);
  if (bytecode == nullptr || !frame_ops::SetCodeExtra(code, index, bytecode.get())) return nullptr;
  return bytecode.release();
}

}  // namespace framefuse
