// AtEndOfBackward: calls `f` when the backward pass under way on this thread has ended, also when it has failed.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_END_OF_BACKWARD_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_END_OF_BACKWARD_H_

#include <functional>

namespace framefuse {

void AtEndOfBackward(std::function<void()> f);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_END_OF_BACKWARD_H_
