// Vectors of elements: in memory by words of up to 16 bytes, in registers as words from which elements are taken.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backends/emit/ptx/printer.h"

namespace framefuse::emit::ptx {

using absl::StrCat;
using kernel_ir::ElementSize;

namespace {

// Types of four bytes and more are a word each; of smaller ones a word holds several.
Class WordClass(kernel_ir::DType dtype) {
  using kernel_ir::DType;
  if (dtype == DType::kF32) return Class::kF32;
  if (dtype == DType::kF64) return Class::kF64;
  return dtype == DType::kI64 ? Class::k64 : Class::k32;
}

}  // namespace

int Printer::Words(DType dtype) const {
  return ElementSize(dtype) >= 4 ? f_.vector : std::max(1, f_.vector * ElementSize(dtype) / 4);
}

std::vector<Operand> Printer::NewWords(DType dtype) {
  std::vector<Operand> words(static_cast<std::size_t>(Words(dtype)));
  for (Operand& word : words) word = t_.New(WordClass(dtype));
  return words;
}

void Printer::TakeWords(DType dtype, const std::vector<Operand>& to, const std::vector<Operand>& from) {
  for (std::size_t w = 0; w < to.size(); ++w) t_.To(to[w], MoveName(WordClass(dtype)), {from[w]});
}

void Printer::MoveWords(DType dtype, const Operand& base, std::int64_t offset, const std::vector<Operand>& words,
                        const std::string& name) {
  const int size = std::min(std::max(ElementSize(dtype), 4), f_.vector * ElementSize(dtype));
  const std::size_t together = std::min<std::size_t>(words.size(), static_cast<std::size_t>(16 / size));
  const char* bits = WordClass(dtype) == Class::kF32 || WordClass(dtype) == Class::kF64 ? ".f" : ".u";
  const std::string type = StrCat(together > 1 ? StrCat(".v", together) : "", bits, size * 8);
  for (std::size_t w = 0; w < words.size(); w += together) {
    const auto first = words.begin() + static_cast<std::ptrdiff_t>(w);
    const Operand group = Group({first, first + static_cast<std::ptrdiff_t>(together)});
    const Operand place = Memory(base, offset + static_cast<std::int64_t>(w) * size);
    name[0] == 's' ? t_.Do(name + type, {place, group}) : t_.Do(name + type, {group, place});
  }
}

void Printer::LoadLanes(DType dtype, const Operand& base, std::int64_t offset, const std::vector<Operand>& to) {
  std::vector<Operand> raw;
  raw.reserve(static_cast<std::size_t>(f_.vector));
  for (int k = 0; k < f_.vector; ++k) {
    raw.push_back(LoadRaw(BitsOf(dtype), base, offset + std::int64_t{k} * ElementSize(dtype),
                          lane_guards_[static_cast<std::size_t>(k)]));
  }
  const std::vector<Operand> words = Compose(ElementSize(dtype), std::move(raw));
  for (std::size_t w = 0; w < to.size(); ++w) t_.To(to[w], MoveName(WordClass(dtype)), {words[w]});
}

void Printer::LoadVector(int b, const std::vector<Operand>& to, bool once) {
  const DType dtype = buffer(b).dtype;
  const auto [base, offset] = ElementPlace(b, 0);
  const bool past_cache = once && Whole() && f_.vector * ElementSize(dtype) >= 16;
  const std::string name = past_cache ? "ld.global.nc.L1::no_allocate" : "ld.global";
  if (Whole()) return MoveWords(dtype, base, offset, to, name);
  LoadPart(dtype, base, offset, to);
}

void Printer::LoadPart(DType dtype, const Operand& base, std::int64_t offset, const std::vector<Operand>& to) {
  const std::string slow = t_.Label(), end = t_.Label();
  t_.JumpUnless(whole_, slow);
  MoveWords(dtype, base, offset, to, "ld.global");
  t_.Jump(end);
  t_.Place(slow);
  LoadLanes(dtype, base, offset, to);
  t_.Place(end);
}

// The type whose raw element is the bits of one of these in a register of 32.
kernel_ir::DType Printer::BitsOf(DType dtype) {
  if (ElementSize(dtype) == 1) return DType::kU8;
  return ElementSize(dtype) == 2 ? DType::kBF16 : dtype;
}

// Words of the low bytes of these.
std::vector<Operand> Printer::Compose(int size, std::vector<Operand> raw) {
  for (const char* selector : {"0x0040", "0x5410"}) {
    if (raw.size() == 1 || size >= 4) return raw;
    if (size == 2 && selector[2] == '0') continue;
    for (std::size_t i = 0; i + 1 < raw.size(); i += 2)
      raw[i / 2] = M(Class::k32, "prmt.b32", {raw[i], raw[i + 1], selector});
    raw.resize(raw.size() / 2);
  }
  return raw;
}

Operand Printer::FromWords(DType dtype, const std::vector<Operand>& words, int k) {
  const int size = ElementSize(dtype);
  if (size >= 4) return words[static_cast<std::size_t>(k)];
  const int each = 4 / size, part = k % each;
  const Operand& word = words[static_cast<std::size_t>(k / each)];
  const Operand from = Immediate(std::int64_t{part} * size * 8), bits = Immediate(std::int64_t{size} * 8);
  switch (dtype) {
    case DType::kBF16: {
      return part == 1 ? M(Class::kF32, "and.b32", {word, "0xffff0000"}) : M(Class::kF32, "shl.b32", {word, "16"});
    }
    case DType::kF16: {
      const Operand low = t_.New(Class::k16), high = t_.New(Class::k16);
      t_.Do("mov.b32", {Group({low, high}), word});
      return M(Class::kF32, "cvt.f32.f16", {part == 1 ? high : low});
    }
    case DType::kBool: {
      const Operand byte = M(Class::k32, "and.b32", {word, StrCat("0x", absl::Hex(0xffu << (8 * part)))});
      return M(Class::kPred, "setp.ne.s32", {byte, "0"});
    }
    case DType::kU8:
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kF32:
    case DType::kF64:
      break;
  }
  return M(Class::k32, dtype == DType::kU8 ? "bfe.u32" : "bfe.s32", {word, from, bits});
}

// As soon as a word's lanes are there: values that wait for the others would take registers.
void Printer::Put(int b, const Operand& lane) {
  const DType dtype = buffer(b).dtype;
  Packed& to = packed_[b];
  to.lanes.push_back(lane);
  const std::size_t each = std::clamp(4 / ElementSize(dtype), 1, f_.vector);
  if (to.lanes.size() < each) return;
  if (dtype == DType::kBF16 || dtype == DType::kF16) {
    const Operand high = each > 1 ? to.lanes[1] : ImmediateF32(0), &low = to.lanes[0];
    to.words.push_back(dtype == DType::kBF16 ? RoundedPair(low, high) : M(Class::k32, "cvt.rn.f16x2.f32", {high, low}));
  } else {
    std::vector<Operand> raw;
    for (const Operand& v : to.lanes) raw.push_back(ToRaw(dtype, v));
    to.words.push_back(Compose(ElementSize(dtype), std::move(raw))[0]);
  }
  to.lanes.clear();
}

Operand Printer::RawOfWords(DType dtype, const std::vector<Operand>& words, int k) {
  const int size = ElementSize(dtype), each = size < 4 ? 4 / size : 1, part = k % each;
  const Operand& word = words[static_cast<std::size_t>(k / each)];
  return part == 0 ? word : M(Class::k32, "shr.u32", {word, Immediate(std::int64_t{part} * size * 8)});
}

void Printer::StoreVector(int b, const std::vector<Operand>& words) {
  const DType dtype = buffer(b).dtype;
  const int size = ElementSize(dtype);
  const auto [base, offset] = ElementPlace(b, 0);
  if (Whole()) return MoveWords(dtype, base, offset, words, "st.global");
  const std::string slow = t_.Label(), end = t_.Label();
  t_.JumpUnless(whole_, slow);
  MoveWords(dtype, base, offset, words, "st.global");
  t_.Jump(end);
  t_.Place(slow);
  for (int k = 0; k < f_.vector; ++k) {
    const DType bits = BitsOf(dtype);
    const Operand guard = LaneGuard(k);
    t_.Do(StrCat(guard.empty() ? "" : StrCat("@", guard, " "), "st.global", MemorySuffix(bits)),
          {Memory(base, offset + std::int64_t{k} * size), RawOfWords(dtype, words, k)});
  }
  t_.Place(end);
}

}  // namespace framefuse::emit::ptx
