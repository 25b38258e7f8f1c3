// Which values of an attempt are fake tensors.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_FAKES_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_FAKES_H_

#include "absl/types/span.h"
#include "symbolic/evaluator/value.h"

namespace framefuse {

bool IsFakeTensor(BorrowedRef object);
// Of the values, or of the items of a tuple or list among them.
bool AnyFake(absl::Span<const ValueView> args);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_FAKES_H_
