// The instructions of PTX that the emulation has, by their whole names. What is approximate on a device is the host's
// function here, as in cuda_emulation.cpp; products and sums are never contracted.
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "c10/util/BFloat16.h"
#include "c10/util/Half.h"
#include "tests/kernels/ptx_handlers.h"

namespace framefuse::testing::ptx {
namespace {

using std::int16_t, std::int32_t, std::int64_t, std::int8_t, std::uint16_t, std::uint32_t, std::uint64_t, std::uint8_t;
using Kind = Operand::Kind;

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
struct WiderOf;
template <>
struct WiderOf<int16_t> {
  using type = int32_t;
};
template <>
struct WiderOf<uint16_t> {
  using type = uint32_t;
};
template <>
struct WiderOf<int32_t> {
  using type = int64_t;
};
template <>
struct WiderOf<uint32_t> {
  using type = uint64_t;
};
template <>
struct WiderOf<int64_t> {
  using type = __int128;
};
template <>
struct WiderOf<uint64_t> {
  using type = unsigned __int128;
};
template <class T>
using Wider = typename WiderOf<T>::type;

// --- integers, which wrap

template <class T>
T Plus(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
}
template <class T>
T HighOfProduct(T a, T b) {
  return static_cast<T>(static_cast<Wider<T>>(a) * b >> (8 * sizeof(T)));
}
template <class T>
T Times(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(static_cast<Unsigned<T>>(a)) * static_cast<Unsigned<T>>(b));
}

template <class T>
void AddIntegers(Table* t, const std::string& type) {
  using U = Unsigned<T>;
  (*t)["add." + type] = Two<T, Plus<T>>;
  (*t)["sub." + type] = Two<T, [](T a, T b) { return static_cast<T>(static_cast<U>(a) - static_cast<U>(b)); }>;
  (*t)["mul.lo." + type] = Two<T, Times<T>>;
  (*t)["mad.lo." + type] = Three<T, [](T a, T b, T c) { return Plus(Times(a, b), c); }>;
  (*t)["mul.hi." + type] = Two<T, HighOfProduct<T>>;
  (*t)["min." + type] = Two<T, [](T a, T b) { return a < b ? a : b; }>;
  (*t)["max." + type] = Two<T, [](T a, T b) { return b < a ? a : b; }>;
  const auto divide = [](Machine& m, const Instruction& i) {
    const T a = m.Get<T>(At(m, i, 1)), b = m.Get<T>(At(m, i, 2));
    if (b == 0 || (std::is_signed_v<T> && b == T(-1) && a == std::numeric_limits<T>::min())) m.Fail("a division");
    m.Set(At(m, i, 0), static_cast<T>(i.name.starts_with("div") ? a / b : a % b));
  };
  (*t)["div." + type] = divide;
  (*t)["rem." + type] = divide;
  if constexpr (std::is_signed_v<T>) {
    (*t)["neg." + type] = One<T, [](T a) { return static_cast<T>(0 - static_cast<U>(a)); }>;
    (*t)["abs." + type] = One<T, [](T a) { return a < 0 ? static_cast<T>(0 - static_cast<U>(a)) : a; }>;
  }
  (*t)["shr." + type] = [](Machine& m, const Instruction& i) {
    const uint32_t by = std::min<uint32_t>(m.Get<uint32_t>(At(m, i, 2)), 8 * sizeof(T));
    const auto wide = static_cast<Wider<T>>(m.Get<T>(At(m, i, 1)));
    m.Set(At(m, i, 0), static_cast<T>(wide >> by));
    if (!std::is_signed_v<T>) m.SetTaint(At(m, i, 0), by < 64 ? m.TaintOf(At(m, i, 1)) >> by : 0);
  };
  if constexpr (sizeof(T) < 8) {
    (*t)["mul.wide." + type] = [](Machine& m, const Instruction& i) {
      Expect(m, i, 3);
      m.Set(At(m, i, 0), static_cast<Wider<T>>(static_cast<Wider<T>>(m.Get<T>(At(m, i, 1))) * m.Get<T>(At(m, i, 2))));
    };
    (*t)["mad.wide." + type] = [](Machine& m, const Instruction& i) {
      Expect(m, i, 4);
      const auto product = static_cast<Wider<T>>(static_cast<Wider<T>>(m.Get<T>(At(m, i, 1))) * m.Get<T>(At(m, i, 2)));
      m.Set(At(m, i, 0), Plus(product, m.Get<Wider<T>>(At(m, i, 3))));
    };
  }
}

template <class T>
void AddBits(Table* t, const std::string& type) {
  (*t)["and." + type] = Two<T, [](T a, T b) { return static_cast<T>(a & b); }>;
  (*t)["or." + type] = Two<T, [](T a, T b) { return static_cast<T>(a | b); }>;
  (*t)["xor." + type] = Two<T, [](T a, T b) { return static_cast<T>(a ^ b); }>;
  if constexpr (std::is_same_v<T, bool>) {
    (*t)["not." + type] = One<T, [](T a) { return !a; }>;
  } else {
    (*t)["not." + type] = One<T, [](T a) { return static_cast<T>(~a); }>;
    (*t)["shl." + type] = [](Machine& m, const Instruction& i) {
      const uint32_t by = m.Get<uint32_t>(At(m, i, 2));
      const uint64_t value = m.Get<T>(At(m, i, 1));
      m.Set(At(m, i, 0), static_cast<T>(by < 8 * sizeof(T) ? value << by : 0));
    };
    (*t)["shr." + type] = [](Machine& m, const Instruction& i) {
      const uint32_t by = m.Get<uint32_t>(At(m, i, 2));
      const uint64_t value = m.Get<T>(At(m, i, 1));
      m.Set(At(m, i, 0), static_cast<T>(by < 8 * sizeof(T) ? value >> by : 0));
      m.SetTaint(At(m, i, 0), by < 64 ? m.TaintOf(At(m, i, 1)) >> by : 0);
    };
  }
}

// `length` bits from `first` on; what lies past the end is the sign, or 0.
template <class T>
void ExtractBits(Machine& m, const Instruction& i) {
  Expect(m, i, 4);
  const auto value = m.Get<T>(At(m, i, 1));
  const unsigned first = m.Get<uint32_t>(At(m, i, 2)) & 0xff, length = m.Get<uint32_t>(At(m, i, 3)) & 0xff;
  constexpr unsigned kBits = 8 * sizeof(T);
  const unsigned last = std::min(first + length, kBits) - 1;
  const bool sign = std::is_signed_v<T> && length > 0 && (static_cast<Unsigned<T>>(value) >> last & 1) != 0;
  Unsigned<T> out = 0;
  for (unsigned k = 0; k < kBits; ++k) {
    const bool bit = k < length && first + k < kBits ? (static_cast<Unsigned<T>>(value) >> (first + k) & 1) != 0 : sign;
    out |= static_cast<Unsigned<T>>(bit) << k;
  }
  m.Set(At(m, i, 0), static_cast<T>(out));
}

// prmt.b32 in its default mode: each result byte is one of the eight of {b, a}, or its sign.
uint32_t Permute(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
  uint32_t out = 0;
  for (unsigned k = 0; k < 4; ++k) {
    const uint32_t pick = selector >> (4 * k) & 0xf;
    uint32_t byte = static_cast<uint32_t>(both >> (8 * (pick & 7))) & 0xff;
    if ((pick & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    out |= byte << (8 * k);
  }
  return out;
}

void LogicOfThree(Machine& m, const Instruction& i) {
  Expect(m, i, 5);
  const auto a = m.Get<uint32_t>(At(m, i, 1)), b = m.Get<uint32_t>(At(m, i, 2)), c = m.Get<uint32_t>(At(m, i, 3));
  const uint64_t table = At(m, i, 4).value;
  uint32_t out = 0;
  for (unsigned k = 0; k < 32; ++k) {
    const uint32_t row = (a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1);
    out |= static_cast<uint32_t>(table >> row & 1) << k;
  }
  m.Set(At(m, i, 0), out);
}

// --- floats

template <class T>
T Flushed(T v) {
  return std::fabs(v) < std::numeric_limits<T>::min() ? std::copysign(T(0), v) : v;
}
template <class T>
T NaN() {
  if constexpr (sizeof(T) == 4) return std::bit_cast<float>(0x7fffffffu);
  return static_cast<T>(std::numeric_limits<double>::quiet_NaN());
}
template <class T>
T Lesser(T a, T b) {
  if (a == b) return std::signbit(a) ? a : b;
  return std::fmin(a, b);
}
template <class T>
T Greater(T a, T b) {
  if (a == b) return std::signbit(a) ? b : a;
  return std::fmax(a, b);
}

template <class T>
void AddFloats(Table* t, const std::string& type) {
  for (const char* rounding : {"", "rn."}) {
    (*t)[absl::StrCat("add.", rounding, type)] = Two<T, [](T a, T b) { return a + b; }>;
    (*t)[absl::StrCat("sub.", rounding, type)] = Two<T, [](T a, T b) { return a - b; }>;
    (*t)[absl::StrCat("mul.", rounding, type)] = Two<T, [](T a, T b) { return a * b; }>;
  }
  (*t)["fma.rn." + type] = Three<T, [](T a, T b, T c) { return std::fma(a, b, c); }>;
  (*t)["div.rn." + type] = Two<T, [](T a, T b) { return a / b; }>;
  (*t)["rcp.rn." + type] = One<T, [](T a) { return 1 / a; }>;
  (*t)["sqrt.rn." + type] = One<T, [](T a) { return std::sqrt(a); }>;
  (*t)["neg." + type] = One<T, [](T a) { return -a; }>;
  (*t)["abs." + type] = One<T, [](T a) { return std::fabs(a); }>;
  (*t)["copysign." + type] = Two<T, [](T sign, T of) { return std::copysign(of, sign); }>;
  (*t)["min." + type] = Two<T, Lesser<T>>;
  (*t)["max." + type] = Two<T, Greater<T>>;
  (*t)["rsqrt.approx." + type] = One<T, [](T a) { return 1 / std::sqrt(a); }>;
}

template <auto f>
void AddApproximate(Table* t, const std::string& name) {
  (*t)[name + ".approx.f32"] = One<float, f>;
  (*t)[name + ".approx.ftz.f32"] = One<float, [](float a) { return Flushed(f(Flushed(a))); }>;
}

// Rounded down.
float ProductAndSumDown(float a, float b, float c) {
  const int before = std::fegetround();
  std::fesetround(FE_DOWNWARD);
  const volatile float x = a, y = b, z = c;
  const volatile float out = std::fma(x, y, z);
  std::fesetround(before);
  return out;
}

void AddFunctions(Table* t) {
  AddApproximate<[](float a) { return std::exp2(a); }>(t, "ex2");
  AddApproximate<[](float a) { return std::log2(a); }>(t, "lg2");
  AddApproximate<[](float a) { return std::sin(a); }>(t, "sin");
  AddApproximate<[](float a) { return std::cos(a); }>(t, "cos");
  AddApproximate<[](float a) { return 1 / a; }>(t, "rcp");
  AddApproximate<[](float a) { return std::sqrt(a); }>(t, "sqrt");
  AddApproximate<[](float a) { return 1 / std::sqrt(a); }>(t, "rsqrt");
  (*t)["fma.rm.f32"] = Three<float, ProductAndSumDown>;
  // As far off as a device's may be.
  (*t)["tanh.approx.f32"] = One<float, [](float a) { return std::tanh(a) * (1 - 0x1p-11f); }>;
  (*t)["div.full.f32"] = Two<float, [](float a, float b) { return a / b; }>;
  (*t)["div.approx.f32"] = (*t)["div.full.f32"];
  (*t)["min.NaN.f32"] = Two<float, [](float a, float b) { return a != a || b != b ? NaN<float>() : Lesser(a, b); }>;
  (*t)["max.NaN.f32"] = Two<float, [](float a, float b) { return a != a || b != b ? NaN<float>() : Greater(a, b); }>;
}

// Halves two by two.
template <class T, bool greater, bool keeps_nan>
uint32_t ExtremeOfPairs(uint32_t a, uint32_t b) {
  uint32_t out = 0;
  for (int k = 0; k < 2; ++k) {
    const auto x = static_cast<uint16_t>(a >> (16 * k)), y = static_cast<uint16_t>(b >> (16 * k));
    const float u = T(x, T::from_bits()), v = T(y, T::from_bits());
    const bool takes_v = u != u || (greater ? u < v : v < u);
    const uint16_t best = u != u && v != v ? 0x7fff : v != v ? x : takes_v ? y : x;
    out |= static_cast<uint32_t>(keeps_nan && (u != u || v != v) ? 0x7fff : best) << (16 * k);
  }
  return out;
}

template <class T>
void AddPairs(Table* t, const std::string& type) {
  (*t)["max." + type] = Two<uint32_t, ExtremeOfPairs<T, true, false>>;
  (*t)["min." + type] = Two<uint32_t, ExtremeOfPairs<T, false, false>>;
  (*t)["max.NaN." + type] = Two<uint32_t, ExtremeOfPairs<T, true, true>>;
  (*t)["min.NaN." + type] = Two<uint32_t, ExtremeOfPairs<T, false, true>>;
}

// The upper 20 bits of the fraction are right; what is not normal is 0.
double RoughReciprocal(double a) {
  const auto flushed = [](double v) { return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(0.0, v) : v; };
  const double r = flushed(1 / flushed(a));
  return std::isfinite(r) ? std::bit_cast<double>(std::bit_cast<uint64_t>(r) & ~((uint64_t{1} << 32) - 1)) : r;
}

// --- comparisons

template <class T, auto holds>
void Compare(Machine& m, const Instruction& i) {
  const bool p = holds(m.Get<T>(At(m, i, 1)), m.Get<T>(At(m, i, 2)));
  m.Set(At(m, i, 0), p);
  if (At(m, i, 0).predicate >= 0) m.SetRegister(At(m, i, 0).predicate, p ? 0 : 1);
  Expect(m, i, 3);
}
template <class T, auto holds>
void CompareAnd(Machine& m, const Instruction& i) {
  Expect(m, i, 4);
  const bool p = holds(m.Get<T>(At(m, i, 1)), m.Get<T>(At(m, i, 2))), with = m.Get<bool>(At(m, i, 3));
  if (At(m, i, 0).predicate >= 0) m.Fail("a second result");
  const std::string op = std::vector<std::string>(absl::StrSplit(i.name, '.'))[2];
  m.Set(At(m, i, 0), op == "and" ? p && with : op == "or" ? p || with : p != with);
}

template <class T, auto holds>
void AddCompare(Table* t, const std::string& name, const std::string& type) {
  (*t)[absl::StrCat("setp.", name, ".", type)] = Compare<T, holds>;
  for (const char* with : {"and", "or", "xor"})
    (*t)[absl::StrCat("setp.", name, ".", with, ".", type)] = CompareAnd<T, holds>;
}

template <class T>
void AddCompares(Table* t, const std::string& type, bool order = true) {
  AddCompare<T, [](T a, T b) { return a == b; }>(t, "eq", type);
  if constexpr (std::is_floating_point_v<T>) {
    AddCompare<T, [](T a, T b) { return a < b || b < a; }>(t, "ne", type);
    AddCompare<T, [](T a, T b) { return !(a < b || b < a); }>(t, "equ", type);
    AddCompare<T, [](T a, T b) { return !(a == b); }>(t, "neu", type);
    AddCompare<T, [](T a, T b) { return !(b <= a); }>(t, "ltu", type);
    AddCompare<T, [](T a, T b) { return !(b < a); }>(t, "leu", type);
    AddCompare<T, [](T a, T b) { return !(a <= b); }>(t, "gtu", type);
    AddCompare<T, [](T a, T b) { return !(a < b); }>(t, "geu", type);
    AddCompare<T, [](T a, T b) { return a == a && b == b; }>(t, "num", type);
    AddCompare<T, [](T a, T b) { return a != a || b != b; }>(t, "nan", type);
  } else {
    AddCompare<T, [](T a, T b) { return a != b; }>(t, "ne", type);
  }
  if (!order) return;
  AddCompare<T, [](T a, T b) { return a < b; }>(t, "lt", type);
  AddCompare<T, [](T a, T b) { return a <= b; }>(t, "le", type);
  AddCompare<T, [](T a, T b) { return b < a; }>(t, "gt", type);
  AddCompare<T, [](T a, T b) { return b <= a; }>(t, "ge", type);
}

template <class T>
void AddSelect(Table* t, const std::string& type) {
  (*t)["selp." + type] = [](Machine& m, const Instruction& i) {
    Expect(m, i, 4);
    m.Set(At(m, i, 0), m.Get<T>(At(m, i, m.Get<bool>(At(m, i, 3)) ? 1 : 2)));
  };
}

// --- control

void AddControl(Table* t) {
  const Handler jump = [](Machine& m, const Instruction& i) { m.Jump(At(m, i, 0).value); };
  const Handler exit = [](Machine& m, const Instruction&) { m.Exit(); };
  const Handler barrier = [](Machine& m, const Instruction& i) {
    if (i.operands.size() != 1 || i.operands[0].kind != Kind::kInteger || i.operands[0].value != 0)
      m.Fail("another barrier than that of the whole block");
    m.WaitForBlock();
  };
  (*t)["bra"] = (*t)["bra.uni"] = jump;
  (*t)["ret"] = (*t)["exit"] = exit;
  (*t)["bar.sync"] = (*t)["barrier.sync"] = (*t)["barrier.sync.aligned"] = barrier;
  (*t)["shfl.sync.bfly.b32"] = [](Machine& m, const Instruction& i) {
    Expect(m, i, 5);
    const auto clamp = m.Get<uint32_t>(At(m, i, 3)), mask = m.Get<uint32_t>(At(m, i, 4));
    const auto distance = m.Get<uint32_t>(At(m, i, 2));
    const Operand& to = At(m, i, 0);
    if (clamp != 31 || mask != 0xffffffffu || distance > 31) m.Fail("a shuffle of other than the whole warp");
    if (to.kind != Kind::kRegister || to.bytes != 4) m.Fail("a result of another width");
    m.Exchange(static_cast<uint32_t>(m.Low(At(m, i, 1), 4)), distance, to.reg, to.predicate);
  };
  const Handler ends = [](Machine& m, const Instruction&) { m.Fail("the program ends itself (an assertion)"); };
  // Arguments of a call.
  (*t)["st.param.b64"] = (*t)["st.param.b32"] = [](Machine&, const Instruction&) {};
  (*t)["trap"] = (*t)["call"] = (*t)["call.uni"] = ends;
}

template <class T>
void AddInteger(Table* t, const std::string& type) {
  AddIntegers<T>(t, type);
  AddCompares<T>(t, type);
  AddSelect<T>(t, type);
}
template <class T>
void AddBitType(Table* t, const std::string& type) {
  AddBits<T>(t, type);
  AddCompares<T>(t, type, false);
  AddSelect<T>(t, type);
}
template <class T>
void AddFloat(Table* t, const std::string& type) {
  AddFloats<T>(t, type);
  AddCompares<T>(t, type);
  AddSelect<T>(t, type);
}

Table MakeTable() {
  Table t;
  AddInteger<int16_t>(&t, "s16");
  AddInteger<uint16_t>(&t, "u16");
  AddInteger<int32_t>(&t, "s32");
  AddInteger<uint32_t>(&t, "u32");
  AddInteger<int64_t>(&t, "s64");
  AddInteger<uint64_t>(&t, "u64");
  AddBitType<uint16_t>(&t, "b16");
  AddBitType<uint32_t>(&t, "b32");
  AddBitType<uint64_t>(&t, "b64");
  AddFloat<float>(&t, "f32");
  AddFloat<double>(&t, "f64");
  AddBits<bool>(&t, "pred");
  AddFunctions(&t);
  AddPairs<c10::BFloat16>(&t, "bf16x2");
  AddPairs<c10::Half>(&t, "f16x2");
  t["rcp.approx.ftz.f64"] = One<double, RoughReciprocal>;
  t["testp.normal.f64"] = One<double, [](double a) { return std::isnormal(a); }>;
  AddMoves(&t);
  AddControl(&t);
  t["prmt.b32"] = [](Machine& m, const Instruction& i) {
    Three<uint32_t, Permute>(m, i);
    const auto taint = [&](std::size_t n) { return static_cast<uint32_t>(m.TaintOf(At(m, i, n))); };
    m.SetTaint(At(m, i, 0), Permute(taint(1), taint(2), m.Get<uint32_t>(At(m, i, 3))));
  };
  t["bfe.u32"] = ExtractBits<uint32_t>;
  t["bfe.s32"] = ExtractBits<int32_t>;
  t["bfe.u64"] = ExtractBits<uint64_t>;
  t["bfe.s64"] = ExtractBits<int64_t>;
  t["lop3.b32"] = LogicOfThree;
  return t;
}

}  // namespace

Handler FindHandler(const std::string& name) {
  static const auto* table = new Table(MakeTable());
  const auto it = table->find(name);
  return it != table->end() ? it->second : nullptr;
}

}  // namespace framefuse::testing::ptx
