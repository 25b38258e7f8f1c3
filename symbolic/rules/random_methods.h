// Random methods: generators of Python's and numpy's whose methods draw one number (FF_SPECIAL … kDraw in
// call_rules.def has Python's). Invariant: of exact types only, whose state can be read and set as a whole
// (generator_state.h).
#ifndef FRAMEFUSE_SYMBOLIC_RULES_RANDOM_METHODS_H_
#define FRAMEFUSE_SYMBOLIC_RULES_RANDOM_METHODS_H_

#include <cstdint>

#include "frame_eval/ref.h"

namespace framefuse {

enum class GeneratorKind : std::uint8_t { kNone, kPython, kNumpyState, kNumpy };
GeneratorKind KindOfGenerator(PyTypeObject* type);

// A method of numpy's generators that draws one number if it is not asked for several. Numpy imports them late, so that
// they are in no table of rules.
bool MakesGenerator(BorrowedRef callable);  // numpy.random.default_rng
bool DrawsForNumpy(BorrowedRef method);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_RANDOM_METHODS_H_
