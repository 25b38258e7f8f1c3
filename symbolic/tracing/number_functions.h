// Functions of symbolic numbers: roots, logarithms, powers, and integers made of floats, with the results that Python's
// own functions have. Where an exact quotient of integers says the same (math.ceil(n / 3)), the result is made of
// integers only, so that the algebra of sizes knows it.
// Invariant: what Python raises for is no result: the facts that are asked for exclude it in later calls.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_NUMBER_FUNCTIONS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_NUMBER_FUNCTIONS_H_

#include <cstdint>
#include <optional>

#include "symbolic/tracing/sizes.h"

namespace framefuse::tracing {

enum class NumberFunction : std::uint8_t { kFloor, kCeil, kRound, kTruncate, kSqrt, kWholeSqrt, kLog, kLog2, kExp };

// Nothing: it is not kept symbolic.
std::optional<ir::Dim> ApplyFunction(Sizes& sizes, NumberFunction function, ir::Dim d);
// One of backends/graph/float_functions.def. `b`: where it takes two numbers.
std::optional<ir::Dim> ApplyFloatFunction(Sizes& sizes, ir::ExprKind function, ir::Dim a, ir::Dim b = ir::Dim());
// a**b of two integers.
std::optional<ir::Dim> Power(Sizes& sizes, ir::Dim a, ir::Dim b);
// a**b, where the result is a float.
std::optional<ir::Dim> FloatPower(Sizes& sizes, ir::Dim a, ir::Dim b);
// A float, or an integer that a float of the same value exists of.
bool IsExactAsFloat(Sizes& sizes, ir::Dim d);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_NUMBER_FUNCTIONS_H_
