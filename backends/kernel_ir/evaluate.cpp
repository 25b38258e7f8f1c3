// Plain C++ meaning of the kernel IR's operations. See evaluate.h.
#include "backends/kernel_ir/evaluate.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "common/check.h"

namespace framefuse::kernel_ir {
namespace {

template <typename T, typename F>
void Map1(void* out, const void* a, int n, F f) {
  auto* o = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(a);
  for (int i = 0; i < n; ++i) o[i] = f(x[i]);
}

template <typename T, typename F>
void Map2(void* out, const void* a, const void* b, int n, F f) {
  auto* o = static_cast<T*>(out);
  const auto *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  for (int i = 0; i < n; ++i) o[i] = f(x[i], y[i]);
}

template <typename T>
using Unsigned = std::make_unsigned_t<T>;

// Two's complement wrap-around without signed overflow.
template <typename T, typename F>
T Wrapping(T a, T b, F f) {
  if constexpr (std::is_floating_point_v<T>) {
    return f(a, b);
  } else {
    return static_cast<T>(f(static_cast<Unsigned<T>>(a), static_cast<Unsigned<T>>(b)));
  }
}

template <typename T>
T MinNan(T a, T b) {
  return a != a ? a : (b != b ? b : (a < b ? a : b));
}
template <typename T>
T MaxNan(T a, T b) {
  return a != a ? a : (b != b ? b : (a > b ? a : b));
}

template <typename T>
bool EvaluateArith(const Inst& inst, void* out, const void* a, const void* b, int n) {
  switch (inst.op) {
    case Op::kAdd:
      return Map2<T>(out, a, b, n,
                     [](T x, T y) {
                       return Wrapping(x, y, [](auto p, auto q) { return static_cast<decltype(p)>(p + q); });
                     }),
             true;
    case Op::kSub:
      return Map2<T>(out, a, b, n,
                     [](T x, T y) {
                       return Wrapping(x, y, [](auto p, auto q) { return static_cast<decltype(p)>(p - q); });
                     }),
             true;
    case Op::kMul:
      return Map2<T>(out, a, b, n,
                     [](T x, T y) {
                       return Wrapping(x, y, [](auto p, auto q) { return static_cast<decltype(p)>(p * q); });
                     }),
             true;
    case Op::kNeg:
      return Map1<T>(out, a, n,
                     [](T x) {
                       if constexpr (std::is_floating_point_v<T>)
                         return -x;
                       else
                         return Wrapping(T{0}, x, [](auto p, auto q) { return static_cast<decltype(p)>(p - q); });
                     }),
             true;
    case Op::kAbs:
      return Map1<T>(out, a, n,
                     [](T x) {
                       if constexpr (std::is_floating_point_v<T>)
                         return std::fabs(x);
                       else
                         return x < 0
                                    ? Wrapping(T{0}, x, [](auto p, auto q) { return static_cast<decltype(p)>(p - q); })
                                    : x;
                     }),
             true;
    case Op::kMin:
      return Map2<T>(out, a, b, n, MinNan<T>), true;
    case Op::kMax:
      return Map2<T>(out, a, b, n, MaxNan<T>), true;
    case Op::kMinRaw:
      return Map2<T>(out, a, b, n, [](T x, T y) { return x < y ? x : y; }), true;
    case Op::kMaxRaw:
      return Map2<T>(out, a, b, n, [](T x, T y) { return x > y ? x : y; }), true;
    default:
      return false;
  }
}

template <typename T>
void EvaluateFunction(const Inst& inst, void* out, const void* a, const void* b, int n) {
  switch (inst.op) {
    case Op::kExp:
      return Map1<T>(out, a, n, [](T x) { return std::exp(x); });
    case Op::kExpm1:
      return Map1<T>(out, a, n, [](T x) { return std::expm1(x); });
    case Op::kExp2:
      return Map1<T>(out, a, n, [](T x) { return std::exp2(x); });
    case Op::kLog:
      return Map1<T>(out, a, n, [](T x) { return std::log(x); });
    case Op::kLog1p:
      return Map1<T>(out, a, n, [](T x) { return std::log1p(x); });
    case Op::kLog2:
      return Map1<T>(out, a, n, [](T x) { return std::log2(x); });
    case Op::kLog10:
      return Map1<T>(out, a, n, [](T x) { return std::log10(x); });
    case Op::kTanh:
      return Map1<T>(out, a, n, [](T x) { return std::tanh(x); });
    case Op::kErf:
      return Map1<T>(out, a, n, [](T x) { return std::erf(x); });
    case Op::kErfc:
      return Map1<T>(out, a, n, [](T x) { return std::erfc(x); });
    case Op::kSigmoid:
      return Map1<T>(out, a, n, [](T x) {
        const T e = std::exp(-std::fabs(x));
        return (x >= 0 ? T{1} : e) / (T{1} + e);
      });
    case Op::kSin:
      return Map1<T>(out, a, n, [](T x) { return std::sin(x); });
    case Op::kCos:
      return Map1<T>(out, a, n, [](T x) { return std::cos(x); });
    case Op::kTan:
      return Map1<T>(out, a, n, [](T x) { return std::tan(x); });
    case Op::kAsin:
      return Map1<T>(out, a, n, [](T x) { return std::asin(x); });
    case Op::kAcos:
      return Map1<T>(out, a, n, [](T x) { return std::acos(x); });
    case Op::kAtan:
      return Map1<T>(out, a, n, [](T x) { return std::atan(x); });
    case Op::kSinh:
      return Map1<T>(out, a, n, [](T x) { return std::sinh(x); });
    case Op::kCosh:
      return Map1<T>(out, a, n, [](T x) { return std::cosh(x); });
    case Op::kPow:
      return Map2<T>(out, a, b, n, [](T x, T y) { return std::pow(x, y); });
    case Op::kAtan2:
      return Map2<T>(out, a, b, n, [](T x, T y) { return std::atan2(x, y); });
    case Op::kFmod:
      return Map2<T>(out, a, b, n, [](T x, T y) { return std::fmod(x, y); });
    default:
      FF_CHECK(false) << Name(inst.op) << " is not evaluated for this type";
  }
}

template <typename T>
void EvaluateFloat(const Inst& inst, void* out, const void* a, const void* b, const void* c, int n) {
  switch (inst.op) {
    case Op::kDiv:
      return Map2<T>(out, a, b, n, [](T x, T y) { return x / y; });
    case Op::kFma: {
      const auto *x = static_cast<const T*>(a), *y = static_cast<const T*>(b), *z = static_cast<const T*>(c);
      for (int i = 0; i < n; ++i) static_cast<T*>(out)[i] = std::fma(x[i], y[i], z[i]);
      return;
    }
    case Op::kFloor:
      return Map1<T>(out, a, n, [](T x) { return std::floor(x); });
    case Op::kCeil:
      return Map1<T>(out, a, n, [](T x) { return std::ceil(x); });
    case Op::kTrunc:
      return Map1<T>(out, a, n, [](T x) { return std::trunc(x); });
    case Op::kRound:
      return Map1<T>(out, a, n, [](T x) { return std::nearbyint(x); });
    case Op::kSqrt:
      return Map1<T>(out, a, n, [](T x) { return std::sqrt(x); });
    case Op::kRsqrt:
      return Map1<T>(out, a, n, [](T x) { return T{1} / std::sqrt(x); });
    case Op::kReciprocal:
    case Op::kReciprocal14:
      return Map1<T>(out, a, n, [](T x) { return T{1} / x; });
    default:
      EvaluateFunction<T>(inst, out, a, b, n);
  }
}

template <typename T>
void EvaluateInt(const Inst& inst, void* out, const void* a, const void* b, int n) {
  const int shift = static_cast<int>(inst.imm);
  switch (inst.op) {
    case Op::kAnd:
      return Map2<T>(out, a, b, n, [](T x, T y) { return x & y; });
    case Op::kOr:
      return Map2<T>(out, a, b, n, [](T x, T y) { return x | y; });
    case Op::kXor:
      return Map2<T>(out, a, b, n, [](T x, T y) { return x ^ y; });
    case Op::kNot:
      return Map1<T>(out, a, n, [](T x) { return ~x; });
    case Op::kShl:
      return Map1<T>(out, a, n, [=](T x) { return static_cast<T>(static_cast<Unsigned<T>>(x) << shift); });
    case Op::kShr:
      return Map1<T>(out, a, n, [=](T x) { return x >> shift; });
    default:
      FF_CHECK(false) << Name(inst.op) << " is not evaluated for this type";
  }
}

template <typename T>
void EvaluateCompare(Op op, std::int32_t* out, const void* a, const void* b, int n) {
  const auto *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  for (int i = 0; i < n; ++i) {
    const bool r = op == Op::kLt   ? x[i] < y[i]
                   : op == Op::kLe ? x[i] <= y[i]
                   : op == Op::kEq ? x[i] == y[i]
                                   : x[i] != y[i];
    out[i] = -static_cast<std::int32_t>(r);
  }
}

template <typename T>
void EvaluateSelect(void* out, const void* a, const void* b, const void* c, int n) {
  const auto* p = static_cast<const std::int32_t*>(a);
  const auto *x = static_cast<const T*>(b), *y = static_cast<const T*>(c);
  for (int i = 0; i < n; ++i) static_cast<T*>(out)[i] = p[i] != 0 ? x[i] : y[i];
}

// Float to int as the machine's truncating conversion: out of range and NaN give the smallest int.
template <typename To, typename From>
To Convert(From value) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    const From limit = std::ldexp(From{1}, static_cast<int>(sizeof(To)) * 8 - 1);
    if (!(value >= -limit && value < limit)) return std::numeric_limits<To>::min();
  }
  return static_cast<To>(value);
}

template <typename From>
void EvaluateCast(Type to, bool from_pred, void* out, const void* a, int n) {
  const auto* x = static_cast<const From*>(a);
  // Widening in place would read what it has overwritten: go from the end.
  for (int k = 0; k < n; ++k) {
    const int i = to == Type::kI64 || to == Type::kF64 ? n - 1 - k : k;
    const From v = from_pred ? static_cast<From>(x[i] != 0) : x[i];
    switch (to) {
      case Type::kPred:
        static_cast<std::int32_t*>(out)[i] = -static_cast<std::int32_t>(v != 0);
        break;
      case Type::kI32:
        static_cast<std::int32_t*>(out)[i] = Convert<std::int32_t>(v);
        break;
      case Type::kI64:
        static_cast<std::int64_t*>(out)[i] = Convert<std::int64_t>(v);
        break;
      case Type::kF32:
        static_cast<float*>(out)[i] = static_cast<float>(v);
        break;
      case Type::kF64:
        static_cast<double*>(out)[i] = static_cast<double>(v);
        break;
    }
  }
}

void EvaluateWrap(DType dtype, void* out, const void* a, int n) {
  const auto* x = static_cast<const std::int32_t*>(a);
  auto* o = static_cast<std::int32_t*>(out);
  for (int i = 0; i < n; ++i) {
    switch (dtype) {
      case DType::kU8:
        o[i] = static_cast<std::uint8_t>(x[i]);
        break;
      case DType::kI8:
        o[i] = static_cast<std::int8_t>(x[i]);
        break;
      case DType::kI16:
        o[i] = static_cast<std::int16_t>(x[i]);
        break;
      case DType::kF16:
        o[i] = std::bit_cast<std::int32_t>(HalfToFloat(FloatToHalf(std::bit_cast<float>(x[i]))));
        break;
      case DType::kBF16:
        o[i] = std::bit_cast<std::int32_t>(BFloat16ToFloat(FloatToBFloat16(std::bit_cast<float>(x[i]))));
        break;
      case DType::kBool:
      case DType::kI32:
      case DType::kI64:
      case DType::kF32:
      case DType::kF64:
        o[i] = x[i];  // as wide as it is computed
    }
  }
}

template <typename Memory, typename Lane, typename F>
void LoadAs(const void* memory, std::int64_t stride, void* lanes, int n, F f) {
  const auto* p = static_cast<const char*>(memory);
  for (int i = 0; i < n; ++i) {
    Memory m;
    std::memcpy(&m, p + i * stride, sizeof m);
    static_cast<Lane*>(lanes)[i] = f(m);
  }
}

template <typename Memory, typename Lane, typename F>
void StoreAs(void* memory, std::int64_t stride, const void* lanes, int n, F f) {
  auto* p = static_cast<char*>(memory);
  for (int i = 0; i < n; ++i) {
    const Memory m = f(static_cast<const Lane*>(lanes)[i]);
    std::memcpy(p + i * stride, &m, sizeof m);
  }
}

}  // namespace

void Evaluate(const Inst& inst, Type from, void* out, const void* a, const void* b, const void* c, int n) {
  if (inst.op == Op::kBitcast) {
    std::memmove(out, a, static_cast<std::size_t>(n) * (Is64Bit(inst.type) ? 8 : 4));
    return;
  }
  if (inst.op == Op::kWrap) return EvaluateWrap(static_cast<DType>(inst.imm), out, a, n);
  const bool compare = ClassOf(inst.op) == OpClass::kCompare;
  Type type = inst.op == Op::kCast || compare ? from : inst.type;
  if (ClassOf(inst.op) == OpClass::kBits && IsFloat(type)) type = Is64Bit(type) ? Type::kI64 : Type::kI32;
  switch (type) {
    case Type::kF32:
      if (inst.op == Op::kCast) return EvaluateCast<float>(inst.type, false, out, a, n);
      if (compare) return EvaluateCompare<float>(inst.op, static_cast<std::int32_t*>(out), a, b, n);
      if (inst.op == Op::kSelect) return EvaluateSelect<float>(out, a, b, c, n);
      if (!EvaluateArith<float>(inst, out, a, b, n)) EvaluateFloat<float>(inst, out, a, b, c, n);
      return;
    case Type::kF64:
      if (inst.op == Op::kCast) return EvaluateCast<double>(inst.type, false, out, a, n);
      if (compare) return EvaluateCompare<double>(inst.op, static_cast<std::int32_t*>(out), a, b, n);
      if (inst.op == Op::kSelect) return EvaluateSelect<double>(out, a, b, c, n);
      if (!EvaluateArith<double>(inst, out, a, b, n)) EvaluateFloat<double>(inst, out, a, b, c, n);
      return;
    case Type::kI32:
    case Type::kPred:
      if (inst.op == Op::kCast) return EvaluateCast<std::int32_t>(inst.type, from == Type::kPred, out, a, n);
      if (compare) return EvaluateCompare<std::int32_t>(inst.op, static_cast<std::int32_t*>(out), a, b, n);
      if (inst.op == Op::kSelect) return EvaluateSelect<std::int32_t>(out, a, b, c, n);
      if (!EvaluateArith<std::int32_t>(inst, out, a, b, n)) EvaluateInt<std::int32_t>(inst, out, a, b, n);
      return;
    case Type::kI64:
      if (inst.op == Op::kCast) return EvaluateCast<std::int64_t>(inst.type, false, out, a, n);
      if (compare) return EvaluateCompare<std::int64_t>(inst.op, static_cast<std::int32_t*>(out), a, b, n);
      if (inst.op == Op::kSelect) return EvaluateSelect<std::int64_t>(out, a, b, c, n);
      if (inst.op == Op::kInRange) return static_cast<void>(std::memmove(out, a, static_cast<std::size_t>(n) * 8));
      if (!EvaluateArith<std::int64_t>(inst, out, a, b, n)) EvaluateInt<std::int64_t>(inst, out, a, b, n);
      return;
  }
}

void LoadLanes(DType dtype, const void* memory, std::int64_t stride, void* lanes, int n) {
  const auto same = [](auto m) { return m; };
  switch (dtype) {
    case DType::kBool:
      return LoadAs<std::uint8_t, std::int32_t>(memory, stride, lanes, n,
                                                [](auto m) { return -static_cast<std::int32_t>(m != 0); });
    case DType::kU8:
      return LoadAs<std::uint8_t, std::int32_t>(memory, stride, lanes, n, same);
    case DType::kI8:
      return LoadAs<std::int8_t, std::int32_t>(memory, stride, lanes, n, same);
    case DType::kI16:
      return LoadAs<std::int16_t, std::int32_t>(memory, stride, lanes, n, same);
    case DType::kI32:
      return LoadAs<std::int32_t, std::int32_t>(memory, stride, lanes, n, same);
    case DType::kI64:
      return LoadAs<std::int64_t, std::int64_t>(memory, stride, lanes, n, same);
    case DType::kF16:
      return LoadAs<std::uint16_t, float>(memory, stride, lanes, n, HalfToFloat);
    case DType::kBF16:
      return LoadAs<std::uint16_t, float>(memory, stride, lanes, n, BFloat16ToFloat);
    case DType::kF32:
      return LoadAs<float, float>(memory, stride, lanes, n, same);
    case DType::kF64:
      return LoadAs<double, double>(memory, stride, lanes, n, same);
  }
}

void StoreLanes(DType dtype, void* memory, std::int64_t stride, const void* lanes, int n) {
  const auto same = [](auto m) { return m; };
  switch (dtype) {
    case DType::kBool:
      return StoreAs<std::uint8_t, std::int32_t>(memory, stride, lanes, n,
                                                 [](auto m) { return static_cast<std::uint8_t>(m != 0); });
    case DType::kU8:
    case DType::kI8:
      return StoreAs<std::uint8_t, std::int32_t>(memory, stride, lanes, n,
                                                 [](auto m) { return static_cast<std::uint8_t>(m); });
    case DType::kI16:
      return StoreAs<std::uint16_t, std::int32_t>(memory, stride, lanes, n,
                                                  [](auto m) { return static_cast<std::uint16_t>(m); });
    case DType::kI32:
      return StoreAs<std::int32_t, std::int32_t>(memory, stride, lanes, n, same);
    case DType::kI64:
      return StoreAs<std::int64_t, std::int64_t>(memory, stride, lanes, n, same);
    case DType::kF16:
      return StoreAs<std::uint16_t, float>(memory, stride, lanes, n, FloatToHalf);
    case DType::kBF16:
      return StoreAs<std::uint16_t, float>(memory, stride, lanes, n, FloatToBFloat16);
    case DType::kF32:
      return StoreAs<float, float>(memory, stride, lanes, n, same);
    case DType::kF64:
      return StoreAs<double, double>(memory, stride, lanes, n, same);
  }
}

float BFloat16ToFloat(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t FloatToBFloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float HalfToFloat(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t exponent = (half >> 10) & 31, mantissa = half & 1023;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13) | (mantissa != 0 ? 0x400000u : 0));
  if (exponent == 0) {
    const float tiny = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -tiny : tiny;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

std::uint16_t FloatToHalf(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
  if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (magnitude < 0x38800000) {  // subnormal half: round the value in units of 2^-24
    const float scaled = std::nearbyint(std::ldexp(std::bit_cast<float>(magnitude), 24));
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(scaled));
  }
  const std::uint32_t rounded = magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

}  // namespace framefuse::kernel_ir
