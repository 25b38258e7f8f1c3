// The meaning of every operation that has no memory access, over arrays of lanes: the interpreter's core, and what
// emitted code calls for functions that it does not expand.
// Lanes are float, double, int32 or int64; a predicate lane is an int32 0 or -1.
#ifndef FRAMEFUSE_BACKENDS_KERNEL_IR_EVALUATE_H_
#define FRAMEFUSE_BACKENDS_KERNEL_IR_EVALUATE_H_

#include "backends/kernel_ir/kernel.h"

namespace framefuse::kernel_ir {

// out[i] = op(a[i], b[i], c[i]) for i in [0, n). `from` is the type of `a`. `out` may be `a`.
void Evaluate(const Inst& inst, Type from, void* out, const void* a, const void* b, const void* c, int n);

// Converts between memory and lanes; `stride` in bytes.
void LoadLanes(DType dtype, const void* memory, std::int64_t stride, void* lanes, int n);
void StoreLanes(DType dtype, void* memory, std::int64_t stride, const void* lanes, int n);

float HalfToFloat(std::uint16_t half);
std::uint16_t FloatToHalf(float value);
float BFloat16ToFloat(std::uint16_t bits);
std::uint16_t FloatToBFloat16(float value);

}  // namespace framefuse::kernel_ir

#endif  // FRAMEFUSE_BACKENDS_KERNEL_IR_EVALUATE_H_
