// Arguments, indices, addresses, and elements between memory and registers.
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/emit/ptx/printer.h"

namespace framefuse::emit::ptx {

using absl::StrCat;
using kernel_ir::ElementSize;

namespace {

struct RawInfo {
  const char* type;  // of one element in memory
  Class in;          // of the register that holds it
};
constexpr RawInfo kRaw[] = {{".u8", Class::k32},   {".u8", Class::k32},  {".s8", Class::k32},  {".s16", Class::k32},
                            {".u32", Class::k32},  {".u64", Class::k64}, {".b16", Class::k16}, {".u16", Class::k32},
                            {".f32", Class::kF32}, {".f64", Class::kF64}};

const RawInfo& Raw(kernel_ir::DType dtype) { return kRaw[static_cast<int>(dtype)]; }

Operand Zero(Class c) {
  if (c == Class::kF32) return ImmediateF32(0);
  return c == Class::kF64 ? ImmediateF64(0) : "0";
}

}  // namespace

// --- arguments

Operand Printer::Argument(int word, int offset, Class c) {
  Operand& found = arguments_[{word * 8 + offset, c}];
  if (found.empty()) {
    found = t_.First(c, c == Class::k64 ? "ld.param.u64" : "ld.param.u32",
                     {StrCat("[", name_, "_args+", word * 8 + offset, "]")});
  }
  return found;
}

Operand Printer::Special(const char* name, bool wide) {
  Operand& found = specials_[StrCat(name, wide ? " 64" : "")];
  if (found.empty()) {
    found = wide ? t_.First(Class::k64, "cvt.u64.u32", {Special(name, false)})
                 : t_.First(Class::k32, "mov.u32", {StrCat("%", name)});
  }
  return found;
}

// --- indices

Operand Printer::Index(std::string_view name, Operands from) {
  return M(IndexClass(), StrCat(std::string(name), IndexSuffix()), from);
}

// By a shift where it is one: of products ptxas makes multiplications with sums in registers of the thread, though what
// is added is the block's.
Operand Printer::Times(const Operand& index, std::int64_t n) {
  if (n == 1) return index;
  const auto bits = static_cast<std::uint64_t>(n);
  if (!std::has_single_bit(bits)) return Index("mul.lo", {index, Immediate(n)});
  return M(IndexClass(), f_.narrow ? "shl.b32" : "shl.b64", {index, Immediate(std::countr_zero(bits))});
}

Operand Printer::Wide(const Operand& index) {
  return f_.narrow && !IsImmediate(index) ? M(Class::k64, "cvt.u64.u32", {index}) : index;
}

// n / d: by the multiplier and the shift of Divisor (form.cpp), or by 32 bits where both have no more.
Operand Printer::Divide(const Operand& n, int slot) {
  if (f_.narrow) {
    const Operand high = M(Class::k32, "mul.hi.u32", {n, Size32(slot)});
    return M(Class::k32, "shr.u32", {M(Class::k32, "add.u32", {high, n}), Argument(SizeWord(slot), 4, Class::k32)});
  }
  const Operand d = Size(slot);
  Operand q = t_.New(Class::k64);
  const std::string wide = t_.Label(), end = t_.Label();
  const Operand bits = M(Class::k64, "shr.u64", {M(Class::k64, "or.b64", {n, d}), "32"});
  t_.JumpIf(M(Class::kPred, "setp.ne.u64", {bits, "0"}), wide);
  const Operand narrow =
      M(Class::k32, "div.u32", {M(Class::k32, "cvt.u32.u64", {n}), M(Class::k32, "cvt.u32.u64", {d})});
  t_.To(q, "cvt.u64.u32", {narrow});
  t_.Jump(end);
  t_.Place(wide);
  t_.To(q, "div.s64", {n, d});
  t_.Place(end);
  return q;
}

// Of this row of the grid, in a table of arguments.
Operand Printer::TableArgument(int word, int words_each, Class c) {
  Operand& table = tables_[words_each];
  if (table.empty()) {
    const Operand bytes =
        t_.First(Class::k64, "mul.wide.u32", {Special("ctaid.y", false), Immediate(std::int64_t{words_each} * 8)});
    const Operand all = t_.First(Class::k64, "mov.b64", {name_ + "_args"});
    table = t_.First(Class::k64, "add.s64", {all, bytes});
  }
  return t_.First(c, c == Class::k64 ? "ld.param.u64" : "ld.param.u32", {Memory(table, std::int64_t{word} * 8)});
}

void Printer::BasePointers() {
  for (int b = 0; b < buffers(); ++b) {
    const Operand given = f_.tensors > 1 ? TableArgument(b, buffers(), Class::k64) : Argument(b, 0, Class::k64);
    base_.push_back(t_.First(Class::k64, "cvta.to.global.u64", {given}));
  }
}

std::vector<Operand> Printer::Coordinates(Operand rest, int dims) {
  std::vector<Operand> at(static_cast<std::size_t>(dims));
  for (int d = dims - 1; d > 0; --d) {
    const Operand next = Divide(rest, at_.ExtentDiv(d));
    const Operand all = Index("mul.lo", {next, IndexSize(at_.Extent(d))});
    at[static_cast<std::size_t>(d)] = Index("sub", {rest, all});
    rest = next;
  }
  if (dims > 0) at[0] = rest;
  return at;
}

// Coordinates by the size of an element, from here on.
void Printer::Scale(const std::vector<Operand>& at) {
  if (!f_.narrow) return;
  for (const Operand& coordinate : at) {
    for (int b = 0; b < buffers(); ++b) {
      const int size = ElementSize(buffer(b).dtype);
      Operand& scaled = scaled_[{coordinate, size}];
      if (scaled.empty()) scaled = Times(coordinate, size);
    }
  }
}

// The pointer at these coordinates from there.
Operand Printer::AtCoordinates(Operand from, int b, const std::vector<Operand>& at) {
  Operand sum;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const int d = static_cast<int>(i);
    if (f_.narrow) {
      const int size = ElementSize(buffer(b).dtype);
      from = M(Class::k64, "mad.wide.u32", {scaled_.at({at[i], size}), Size32(at_.Outer(b, d)), from});
      continue;
    }
    const Operand stride = Size(at_.Outer(b, d));
    sum =
        sum.empty() ? M(Class::k64, "mul.lo.s64", {at[i], stride}) : M(Class::k64, "mad.lo.s64", {at[i], stride, sum});
  }
  return Past(from, b, sum);
}

Operand Printer::Past(const Operand& base, int b, const Operand& elements) {
  if (elements.empty()) return base;
  const int size = ElementSize(buffer(b).dtype);
  if (size == 1) return M(Class::k64, "add.s64", {base, elements});
  const Operand bytes = M(Class::k64, "shl.b64", {elements, Immediate(std::countr_zero(static_cast<unsigned>(size)))});
  return M(Class::k64, "add.s64", {base, bytes});
}

std::vector<Operand> Printer::Pointers(const std::vector<Operand>& at) {
  Scale(at);
  std::vector<Operand> to = base_;
  for (int b = 0; b < buffers(); ++b) {
    Operand& p = to[static_cast<std::size_t>(b)];
    p = AtCoordinates(p, b, at);
  }
  return to;
}

void Printer::GoTo(const Operand& index) {
  spot_.index = index;
  spot_.plus = 0;
  CountBytes();
  spot_.here.assign(k_.buffers.size(), "");
  if (f_.full) return;  // nothing is jumped over: where an address is asked for first, it is known from there on
  for (int b = 0; b < buffers(); ++b) {
    if (buffer(b).inner != Inner::kUniform && !IsTile(b)) spot_.here[static_cast<std::size_t>(b)] = Here(b);
  }
}

void Printer::CountBytes() {
  spot_.bytes.clear();
  for (int b = 0; !f_.narrow && b < buffers(); ++b) {
    const int size = ElementSize(buffer(b).dtype);
    if (IsVector(b) && !spot_.bytes.contains(size)) spot_.bytes[size] = Times(spot_.index, size);
  }
}

// Where buffer b has the element at the spot's index.
Operand Printer::Here(int b) {
  const Operand& index = spot_.index;
  Operand from = spot_.segment[static_cast<std::size_t>(b)];
  if (from.empty()) from = base_[static_cast<std::size_t>(b)];
  if (!IsVector(b)) return Past(from, b, M(Class::k64, "mul.lo.s64", {Wide(index), Size(at_.InnerStride(b))}));
  if (!f_.narrow) return M(Class::k64, "add.s64", {from, spot_.bytes.at(ElementSize(buffer(b).dtype))});
  return M(Class::k64, "mad.wide.u32", {index, Immediate(ElementSize(buffer(b).dtype)), from});
}

std::pair<Operand, std::int64_t> Printer::ElementPlace(int b, int k) {
  const auto i = static_cast<std::size_t>(b);
  if (buffer(b).inner == Inner::kUniform) return {spot_.segment[i], 0};
  if (spot_.here[i].empty()) spot_.here[i] = LateHere(b);
  const std::int64_t past = spot_.plus + k;
  if (IsVector(b)) return {spot_.here[i], past * ElementSize(buffer(b).dtype)};
  if (past == 0) return {spot_.here[i], 0};
  const Operand further = M(Class::k64, "mul.lo.s64", {Size(at_.InnerStride(b)), Immediate(past)});
  return {Past(spot_.here[i], b, further), 0};
}

// --- one element

const char* Printer::MemorySuffix(DType dtype) { return Raw(dtype).type; }

Class Printer::RawClass(DType dtype) { return Raw(dtype).in; }

Operand Printer::FromRaw(DType dtype, const Operand& raw) {
  if (dtype == DType::kBool) return M(Class::kPred, "setp.ne.s32", {raw, "0"});
  if (dtype == DType::kBF16) return M(Class::kF32, "shl.b32", {raw, "16"});
  if (dtype == DType::kF16) return M(Class::kF32, "cvt.f32.f16", {raw});
  return raw;
}

Operand Printer::ToRaw(DType dtype, const Operand& value) {
  if (dtype == DType::kBool) return M(Class::k32, "selp.b32", {"1", "0", Predicate(value)});
  if (dtype == DType::kBF16) return M(Class::k32, "cvt.rn.bf16x2.f32", {ImmediateF32(0), value});
  if (dtype == DType::kF16) return M(Class::k16, "cvt.rn.f16.f32", {value});
  return IsImmediate(value) ? M(RawClass(dtype), MoveName(RawClass(dtype)), {value}) : value;
}

Operand Printer::LoadRaw(DType dtype, const Operand& base, std::int64_t offset, const Operand& guard) {
  const std::string load = StrCat("ld.global", Raw(dtype).type);
  if (guard.empty()) return M(RawClass(dtype), load, {Memory(base, offset)});
  Operand raw = M(RawClass(dtype), MoveName(RawClass(dtype)), {Zero(RawClass(dtype))});
  t_.To(raw, StrCat("@", guard, " ", load), {Memory(base, offset)});
  return raw;
}

void Printer::StoreOne(DType dtype, const Operand& base, std::int64_t offset, const Operand& value,
                       const Operand& guard) {
  const Operand raw = ToRaw(dtype, value);
  const std::string unless = guard.empty() ? "" : StrCat("@", guard, " ");
  t_.Do(StrCat(unless, "st.global", Raw(dtype).type), {Memory(base, offset), raw});
}

// Element `in.args[0]` of the row.
Operand Printer::LoadAt(const Inst& in, const Operand& guard) {
  const Operand i = V(in.args[0]);
  CheckInRange(i, Size(CudaSizes::kInner), guard);
  const DType dtype = buffer(in.slot).dtype;
  const Operand past = M(Class::k64, "mul.lo.s64", {i, Size(at_.InnerStride(in.slot))});
  const Operand place = Past(spot_.segment[static_cast<std::size_t>(in.slot)], in.slot, past);
  return FromRaw(dtype, LoadRaw(dtype, place, 0, guard));
}

// An index out of its range ends the program as eager's kernels do: with a device-side assertion.
void Printer::CheckInRange(const Operand& i, const Operand& limit, const Operand& guard) {
  const std::string end = t_.Label();
  Operand fails = M(Class::kPred, "setp.ge.u64", {i, limit});
  if (!guard.empty()) fails = M(Class::kPred, "and.pred", {fails, guard});
  t_.JumpUnless(fails, end);
  t_.Brace("{");
  std::vector<Operand> names;
  for (const char* argument : {"$index_message", "$index_file", "0", "$index_function", "1"}) {
    const bool text = argument[0] == '$', wide = names.size() != 2;
    names.push_back(StrCat("argument", names.size()));
    t_.Do(StrCat(".param .b", wide ? 64 : 32, " ", names.back()), {});
    Operand value = argument;
    if (text) value = M(Class::k64, "cvta.global.u64", {M(Class::k64, "mov.u64", {argument})});
    t_.Do(StrCat("st.param.b", wide ? 64 : 32), {Memory(names.back(), 0), value});
  }
  t_.Do("call.uni", {"__assertfail", "(" + absl::StrJoin(names, ", ") + ")"});
  t_.Brace("}");
  t_.Place(end);
}

}  // namespace framefuse::emit::ptx
