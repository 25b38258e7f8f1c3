// Annotations that Python computes when they are first asked for (from 3.14 on), and then keeps.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_ANNOTATIONS_H_
#define FRAMEFUSE_SYMBOLIC_RULES_ANNOTATIONS_H_

#include "frame_eval/ref.h"

namespace framefuse {

// The function or class has its annotations, or what computes them only looks up names: an attempt may ask for them.
[[nodiscard]] bool MayAskForAnnotations(BorrowedRef object);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_ANNOTATIONS_H_
