#include "symbolic/journals/number_methods.h"

#include <opcode.h>

#include <limits>

#include "symbolic/tracing/sizes.h"

namespace framefuse {
namespace {

using ir::Dim;
using ir::ExprKind;
using tracing::NumberFunction;
using tracing::Numbers;
using tracing::SizeArithmetic;

Ref Integer(std::int64_t value) { return Ref::Steal(PyLong_FromLongLong(value)); }

// Of a plain integer that is not negative.
std::optional<std::int64_t> CountOf(const Numbers& numbers, BorrowedRef object) {
  if (numbers.IsSymbolic(object)) return std::nullopt;
  const std::optional<Dim> d = PyLong_CheckExact(object.get()) ? numbers.Find(object) : std::nullopt;
  return d && d->is_constant() && d->constant() >= 0 ? std::optional(d->constant()) : std::nullopt;
}

bool IsFinite(Numbers& numbers, Dim d) {
  tracing::Sizes& sizes = numbers.sizes();
  ir::ExprTable& table = sizes.Table();
  return sizes.Decide(ExprKind::kLe, table.Make(ExprKind::kAbs, d),
                      table.FloatConstant(std::numeric_limits<double>::max()));
}

}  // namespace

Ref CombineBits(Numbers& numbers, int nb_op, BorrowedRef left, BorrowedRef right) {
  constexpr std::int64_t kMostPlaces = 31;
  nb_op %= NB_INPLACE_ADD;
  const bool shifts = nb_op == NB_LSHIFT || nb_op == NB_RSHIFT;
  if (!shifts && nb_op != NB_AND) return Ref();
  if (!shifts && !numbers.IsSymbolic(left)) std::swap(left, right);
  if (!PyLong_CheckExact(left.get()) || !numbers.IsSymbolic(left)) return Ref();
  const std::optional<std::int64_t> count = CountOf(numbers, right);
  if (!count) return Ref();
  if (shifts) {
    if (*count > kMostPlaces) return Ref();
    const auto operation = nb_op == NB_LSHIFT ? SizeArithmetic::kMultiply : SizeArithmetic::kFloorDivide;
    return numbers.Combine(operation, left, Integer(std::int64_t{1} << *count));
  }
  // Only a mask of the lowest places is a remainder.
  const bool is_mask = *count < (std::int64_t{1} << kMostPlaces) && (*count & (*count + 1)) == 0;
  return is_mask ? numbers.Combine(SizeArithmetic::kModulo, left, Integer(*count + 1)) : Ref();
}

Ref InvertBits(Numbers& numbers, BorrowedRef integer) {
  const Ref negated = numbers.Negate(integer);
  return negated ? numbers.Combine(SizeArithmetic::kSubtract, negated, Integer(1)) : Ref();
}

// One more than the whole part of the logarithm, which is exact for powers of two, and less than the next one for what
// is below it.
Ref BitLength(Numbers& numbers, BorrowedRef integer) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  tracing::Sizes& sizes = numbers.sizes();
  const Dim d = *numbers.Find(integer);
  if (!sizes.Decide(ExprKind::kLe, Dim(1), d) || !sizes.Decide(ExprKind::kLe, d, Dim(kMost))) return Ref();
  const Ref logarithm = numbers.Apply(NumberFunction::kLog2, integer);
  const Ref whole = logarithm ? numbers.Apply(NumberFunction::kTruncate, logarithm) : Ref();
  return whole ? numbers.Combine(SizeArithmetic::kAdd, whole, Integer(1)) : Ref();
}

Ref RoundToPlaces(Numbers& numbers, BorrowedRef number, BorrowedRef places) {
  constexpr std::int64_t kMostPlaces = 15;
  const std::optional<std::int64_t> count = CountOf(numbers, places);
  if (!count || *count > kMostPlaces) return Ref();
  if (PyLong_CheckExact(number.get())) return Ref::Create(number);
  return numbers.Apply(ExprKind::kRoundTo, number, places);
}

std::optional<bool> AskNumber(Numbers& numbers, std::string_view question, BorrowedRef number) {
  const Dim d = *numbers.Find(number);
  const bool is_float = numbers.sizes().IsFloat(d);
  if (question == "isfinite" || question == "isnan" || question == "isinf") {
    if (is_float && !IsFinite(numbers, d)) return std::nullopt;
    return question == "isfinite";
  }
  if (question != "is_integer" || !is_float || !IsFinite(numbers, d)) return std::nullopt;
  const Ref whole = numbers.Apply(NumberFunction::kFloor, number);
  return whole ? numbers.Compare(Py_EQ, number, whole) : std::nullopt;
}

}  // namespace framefuse
