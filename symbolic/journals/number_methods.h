// number_methods: what Python's own integers and floats can do besides arithmetic, of symbolic ones: shifts and masks
// of integers, round(x, 2), and questions such as math.isfinite(x) and x.is_integer(). Invariant: each gives what
// Python gives, for all numbers that the facts allow. Null, or nothing: it is not kept symbolic.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_NUMBER_METHODS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_NUMBER_METHODS_H_

#include <optional>
#include <string_view>

#include "symbolic/tracing/numbers.h"

namespace framefuse {

// By an integer of the code's own: n << 3, n >> 3, n & 7.
Ref CombineBits(tracing::Numbers& numbers, int nb_op, BorrowedRef left, BorrowedRef right);
Ref InvertBits(tracing::Numbers& numbers, BorrowedRef integer);
Ref BitLength(tracing::Numbers& numbers, BorrowedRef integer);
// round() to so many places behind the point.
Ref RoundToPlaces(tracing::Numbers& numbers, BorrowedRef number, BorrowedRef places);
// math.isfinite, isnan and isinf; is_integer of a float.
std::optional<bool> AskNumber(tracing::Numbers& numbers, std::string_view question, BorrowedRef number);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_NUMBER_METHODS_H_
