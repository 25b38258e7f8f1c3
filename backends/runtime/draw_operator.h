// framefuse::draw_: fills a tensor with random numbers whose distribution has a number that is symbolic. Torch's own
// functions take such numbers as plain doubles; the recorder makes torch's operator of it, with the symbolic number.
// Invariant: the draws are those of the operator that it is named after.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_DRAW_OPERATOR_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_DRAW_OPERATOR_H_

namespace framefuse {

// Once a process, before the first capture.
void RegisterDrawOperator();

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_DRAW_OPERATOR_H_
