// Copies a transposed tile: to[i][j] = from[j][i], for elements of 1, 2, 4 or 8 bytes. Owner: backends/cpu_runtime.
#ifndef FRAMEFUSE_BACKENDS_CPU_RUNTIME_TRANSPOSE_H_
#define FRAMEFUSE_BACKENDS_CPU_RUNTIME_TRANSPOSE_H_

#include <cstdint>

namespace framefuse::cpu {

// `from` has unit stride along i and `from_stride` bytes along j; `to` has unit stride along j and `to_stride` along i.
void TransposeTile(int element, const char* from, std::int64_t from_stride, char* to, std::int64_t to_stride,
                   std::int64_t rows, std::int64_t columns);

}  // namespace framefuse::cpu

#endif  // FRAMEFUSE_BACKENDS_CPU_RUNTIME_TRANSPOSE_H_
