// Rewrites f32 math functions of a kernel into arithmetic and bit operations, for targets without such instructions.
// exp, expm1, log, log1p, tanh, erf, sigmoid, rsqrt and reciprocal are expanded, at most 2 ULP off, with NaN,
// infinities and denormals as in libm; what stays (f64, sin, pow, …) the target calls. `approximate`: the
// target has kReciprocal14; `leave`: functions that it has, too.
#ifndef FRAMEFUSE_BACKENDS_EMIT_EXPAND_MATH_H_
#define FRAMEFUSE_BACKENDS_EMIT_EXPAND_MATH_H_

#include <functional>

#include "backends/kernel_ir/kernel.h"

namespace framefuse::emit {

kernel_ir::Kernel ExpandMath(const kernel_ir::Kernel& kernel, bool approximate,
                             const std::function<bool(kernel_ir::ValueId)>& leave = {});

}  // namespace framefuse::emit

#endif  // FRAMEFUSE_BACKENDS_EMIT_EXPAND_MATH_H_
