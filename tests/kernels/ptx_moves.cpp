// Instructions of PTX that move and convert: registers, memory of all spaces, numbers of all types. A load's and a
// conversion's register may be wider than the number.
#include <c10/util/Half.h>

#include <bit>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/kernels/ptx_handlers.h"

namespace framefuse::testing::ptx {
namespace {

using std::int16_t, std::int32_t, std::int64_t, std::int8_t, std::uint16_t, std::uint32_t, std::uint64_t, std::uint8_t;
using Kind = Operand::Kind;

// Packs lanes into a register, or takes one apart.
template <class T>
void Move(Machine& m, const Instruction& i) {
  Expect(m, i, 2);
  const Operand &to = At(m, i, 0), &from = At(m, i, 1);
  if (from.kind == Kind::kLanes) {
    const std::size_t bytes = sizeof(T) / from.lanes.size();
    uint64_t all = 0, taint = 0;
    for (std::size_t k = 0; k < from.lanes.size(); ++k) {
      if (from.lanes[k].bytes != bytes) m.Fail("a lane of another width");
      all |= m.Low(from.lanes[k], bytes) << (8 * bytes * k);
      taint |= (m.TaintOf(from.lanes[k]) & ((uint64_t{1} << (8 * bytes)) - 1)) << (8 * bytes * k);
    }
    m.Set(to, static_cast<T>(all));
    return m.SetTaint(to, taint);
  }
  if (to.kind == Kind::kRegister && from.kind == Kind::kRegister) return m.Copy(to, from);
  if (to.kind != Kind::kLanes) return m.Set(to, m.Get<T>(from));
  const std::size_t bytes = sizeof(T) / to.lanes.size();
  const auto all = static_cast<uint64_t>(m.Get<T>(from));
  for (std::size_t k = 0; k < to.lanes.size(); ++k) {
    const Operand& lane = to.lanes[k];
    if (lane.kind == Kind::kNone) continue;
    if (lane.bytes != bytes) m.Fail("a lane of another width");
    m.SetRegister(lane.reg, all >> (8 * bytes * k) & ((uint64_t{1} << (8 * bytes)) - 1));
    m.SetTaint(lane, m.TaintOf(from) >> (8 * bytes * k) & ((uint64_t{1} << (8 * bytes)) - 1));
  }
}
// --- memory

// 0xff for each bit.
uint64_t MaskOfBytes(unsigned bytes) {
  uint64_t mask = 0;
  for (unsigned k = 0; k < 8; ++k) mask |= (bytes >> k & 1) != 0 ? uint64_t{0xff} << (8 * k) : 0;
  return mask;
}

template <class T, Space space>
void Load(Machine& m, const Instruction& i) {
  Expect(m, i, 2);
  const Operand& to = At(m, i, 0);
  const std::size_t count = to.kind == Kind::kLanes ? to.lanes.size() : 1;
  T values[4] = {};
  const unsigned unset = m.Read(space, At(m, i, 1), count * sizeof(T), values);
  for (std::size_t k = 0; k < count; ++k) {
    const Operand& lane = count == 1 ? to : to.lanes[k];
    m.SetWide(lane, values[k]);
    m.SetTaint(lane, MaskOfBytes(unset >> (k * sizeof(T)) & ((1u << sizeof(T)) - 1)));
  }
}
template <class T, Space space>
void Store(Machine& m, const Instruction& i) {
  Expect(m, i, 2);
  const Operand& from = At(m, i, 1);
  const std::size_t count = from.kind == Kind::kLanes ? from.lanes.size() : 1;
  T values[4] = {};
  for (std::size_t k = 0; k < count; ++k) {
    const Operand& lane = count == 1 ? from : from.lanes[k];
    const uint64_t bits = std::is_floating_point_v<T> && lane.kind != Kind::kRegister
                              ? (lane.kind == Kind::kInteger ? (m.Fail("an integer"), 0) : lane.value)
                              : m.Low(lane, sizeof(T));
    std::memcpy(&values[k], &bits, sizeof(T));
  }
  m.Write(space, At(m, i, 0), count * sizeof(T), values);
}

template <class T, Space space>
void AddAccess(Table* t, const std::string& where, const std::string& type) {
  std::vector<std::string> load = {""}, store = {""};
  if (where == ".global") {
    for (const char* cached : {"", ".L1::no_allocate", ".L1::evict_last", ".L1::evict_first"}) {
      for (const char* ahead : {"", ".L2::64B", ".L2::128B", ".L2::256B"}) {
        for (const char* kept : {"", ".nc"}) load.push_back(absl::StrCat(kept, cached, ahead));
      }
      store.push_back(cached);
    }
    load.insert(load.end(), {".cs", ".cg", ".ca", ".nc.cs"});
    store.insert(store.end(), {".cs", ".cg", ".wb"});
  }
  for (const char* lanes : {"", ".v2", ".v4"}) {
    if (std::atoi(lanes + (*lanes == '\0' ? 0 : 2)) * sizeof(T) > 16) continue;
    for (const std::string& how : load) (*t)[absl::StrCat("ld", where, how, lanes, ".", type)] = Load<T, space>;
    if (space == Space::kParam) continue;
    for (const std::string& how : store) (*t)[absl::StrCat("st", where, how, lanes, ".", type)] = Store<T, space>;
  }
}
template <class T>
void AddMemory(Table* t, const std::string& type) {
  AddAccess<T, Space::kGlobal>(t, "", type);  // generic addresses are global ones here: none is made of shared memory
  AddAccess<T, Space::kGlobal>(t, ".global", type);
  AddAccess<T, Space::kGlobal>(t, ".const", type);
  AddAccess<T, Space::kShared>(t, ".shared", type);
  AddAccess<T, Space::kParam>(t, ".param", type);
}

// --- conversions

template <class To, class From>
void ConvertIntegers(Machine& m, const Instruction& i) {
  Expect(m, i, 2);
  m.SetWide(At(m, i, 0), static_cast<To>(static_cast<From>(m.Low(At(m, i, 1), sizeof(From)))));
}
template <class To, class From>
void FloatOfInteger(Machine& m, const Instruction& i) {
  Expect(m, i, 2);
  m.Set(At(m, i, 0), static_cast<To>(static_cast<From>(m.Low(At(m, i, 1), sizeof(From)))));
}
// Saturates; NaN is 0, or the lowest number where 64 bits take part.
template <class To, class From, auto rounded>
void IntegerOfFloat(Machine& m, const Instruction& i) {
  Expect(m, i, 2);
  const From v = rounded(m.Get<From>(At(m, i, 1)));
  To out = 0;
  if (v != v) {
    out = sizeof(To) == 8 || sizeof(From) == 8 ? static_cast<To>(uint64_t{1} << (8 * sizeof(To) - 1)) : To(0);
  } else if (v < static_cast<From>(std::numeric_limits<To>::min())) {
    out = std::numeric_limits<To>::min();
  } else if (v >= std::ldexp(From(1), std::numeric_limits<To>::digits)) {
    out = std::numeric_limits<To>::max();
  } else {
    out = static_cast<To>(v);
  }
  m.SetWide(At(m, i, 0), out);
}

template <class From>
void AddConversionsFrom(Table* t, const std::string& from) {
  (*t)["cvt.u8." + from] = ConvertIntegers<uint8_t, From>;
  (*t)["cvt.s8." + from] = ConvertIntegers<int8_t, From>;
  (*t)["cvt.u16." + from] = ConvertIntegers<uint16_t, From>;
  (*t)["cvt.s16." + from] = ConvertIntegers<int16_t, From>;
  (*t)["cvt.u32." + from] = ConvertIntegers<uint32_t, From>;
  (*t)["cvt.s32." + from] = ConvertIntegers<int32_t, From>;
  (*t)["cvt.u64." + from] = ConvertIntegers<uint64_t, From>;
  (*t)["cvt.s64." + from] = ConvertIntegers<int64_t, From>;
  (*t)["cvt.rn.f32." + from] = FloatOfInteger<float, From>;
  (*t)["cvt.rn.f64." + from] = FloatOfInteger<double, From>;
}

template <class To, class From>
void AddRounded(Table* t, const std::string& to, const std::string& from) {
  (*t)[absl::StrCat("cvt.rzi.", to, ".", from)] = IntegerOfFloat<To, From, [](From v) { return std::trunc(v); }>;
  (*t)[absl::StrCat("cvt.rni.", to, ".", from)] = IntegerOfFloat<To, From, [](From v) { return std::rint(v); }>;
  (*t)[absl::StrCat("cvt.rmi.", to, ".", from)] = IntegerOfFloat<To, From, [](From v) { return std::floor(v); }>;
  (*t)[absl::StrCat("cvt.rpi.", to, ".", from)] = IntegerOfFloat<To, From, [](From v) { return std::ceil(v); }>;
}
template <class From>
void AddConversionsOfFloat(Table* t, const std::string& from) {
  AddRounded<uint8_t, From>(t, "u8", from);
  AddRounded<int8_t, From>(t, "s8", from);
  AddRounded<uint16_t, From>(t, "u16", from);
  AddRounded<int16_t, From>(t, "s16", from);
  AddRounded<uint32_t, From>(t, "u32", from);
  AddRounded<int32_t, From>(t, "s32", from);
  AddRounded<uint64_t, From>(t, "u64", from);
  AddRounded<int64_t, From>(t, "s64", from);
  const std::string to = absl::StrCat(from, ".", from);
  (*t)["cvt.rni." + to] = One<From, [](From v) { return std::rint(v); }>;
  (*t)["cvt.rmi." + to] = One<From, [](From v) { return std::floor(v); }>;
  (*t)["cvt.rpi." + to] = One<From, [](From v) { return std::ceil(v); }>;
  (*t)["cvt.rzi." + to] = One<From, [](From v) { return std::trunc(v); }>;
}

uint16_t BFloat(float v) {
  const auto b = std::bit_cast<uint32_t>(v);
  return static_cast<uint16_t>(v != v ? 0x7fffu : (b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}
uint16_t Half(float v) { return v != v ? 0x7fff : c10::Half(v).x; }

template <auto half>
void PairOfHalves(Machine& m, const Instruction& i) {
  Expect(m, i, 3);  // the first is the high one
  const uint32_t high = half(m.Get<float>(At(m, i, 1))), low = half(m.Get<float>(At(m, i, 2)));
  m.Set(At(m, i, 0), high << 16 | low);
}

void AddHalves(Table* t) {
  (*t)["cvt.rn.f16.f32"] = One<float, Half>;
  (*t)["cvt.rn.bf16.f32"] = One<float, BFloat>;
  (*t)["cvt.rn.f16x2.f32"] = PairOfHalves<Half>;
  (*t)["cvt.rn.bf16x2.f32"] = PairOfHalves<BFloat>;
  (*t)["cvt.f32.f16"] =
      One<uint16_t, [](uint16_t v) { return static_cast<float>(c10::Half(v, c10::Half::from_bits())); }>;
  (*t)["cvt.f64.f32"] = One<float, [](float v) { return static_cast<double>(v); }>;
  (*t)["cvt.rn.f32.f64"] = One<double, [](double v) { return static_cast<float>(v); }>;
}

template <class T>
void AddInteger(Table* t, const std::string& type) {
  AddMemory<T>(t, type);
  AddConversionsFrom<T>(t, type);
  if constexpr (sizeof(T) > 1) (*t)["mov." + type] = Move<T>;
}
template <class T>
void AddFloat(Table* t, const std::string& type) {
  AddMemory<T>(t, type);
  AddConversionsOfFloat<T>(t, type);
  (*t)["mov." + type] = [](Machine& m, const Instruction& i) {
    Expect(m, i, 2);
    const Operand &to = At(m, i, 0), &from = At(m, i, 1);
    from.kind == Kind::kRegister ? m.Copy(to, from) : m.Set(to, m.Get<T>(from));
  };
}

}  // namespace

void AddMoves(Table* t) {
  AddInteger<int8_t>(t, "s8");
  AddInteger<uint8_t>(t, "u8");
  AddInteger<int16_t>(t, "s16");
  AddInteger<uint16_t>(t, "u16");
  AddInteger<int32_t>(t, "s32");
  AddInteger<uint32_t>(t, "u32");
  AddInteger<int64_t>(t, "s64");
  AddInteger<uint64_t>(t, "u64");
  AddMemory<uint8_t>(t, "b8");
  AddMemory<uint16_t>(t, "b16");
  AddMemory<uint32_t>(t, "b32");
  AddMemory<uint64_t>(t, "b64");
  AddFloat<float>(t, "f32");
  AddFloat<double>(t, "f64");
  (*t)["cvt.sat.f32.f32"] = One<float, [](float v) { return v != v ? 0.0f : std::fmin(std::fmax(v, 0.0f), 1.0f); }>;
  AddHalves(t);
  (*t)["mov.b16"] = Move<uint16_t>;
  (*t)["mov.b32"] = Move<uint32_t>;
  (*t)["mov.b64"] = Move<uint64_t>;
  (*t)["mov.pred"] = One<bool, [](bool a) { return a; }>;
  for (const char* how : {"cvta.to.global.u64", "cvta.global.u64"}) (*t)[how] = Move<uint64_t>;  // one space here
}

}  // namespace framefuse::testing::ptx
