// See transpose.h. Owner: backends/cpu_runtime.
#include "backends/cpu_runtime/transpose.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace framefuse::cpu {
namespace {

template <typename T>
void Plain(const char* from, std::int64_t from_stride, char* to, std::int64_t to_stride, std::int64_t rows,
           std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      std::memcpy(to + i * to_stride + j * static_cast<std::int64_t>(sizeof(T)),
                  from + j * from_stride + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    }
  }
}

#if defined(__x86_64__)
// 8 by 8 elements of 4 bytes: rows j and j + 4 are put beside each other as they are loaded, which shuffles nothing.
// The loops are unrolled for the arrays to be registers.
__attribute__((target("avx2"), always_inline)) inline void Block8x8(const char* from, std::int64_t from_stride,
                                                                    char* to, std::int64_t to_stride) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    __m256 r[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const char* at = from + j * from_stride + half * 16;
      const __m128 upper = _mm_loadu_ps(reinterpret_cast<const float*>(at + 4 * from_stride));
      r[j] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(reinterpret_cast<const float*>(at))), upper, 1);
    }
    const __m256 t[4] = {_mm256_unpacklo_ps(r[0], r[1]), _mm256_unpackhi_ps(r[0], r[1]), _mm256_unpacklo_ps(r[2], r[3]),
                         _mm256_unpackhi_ps(r[2], r[3])};
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      auto* even = reinterpret_cast<float*>(to + (half * 4 + 2 * i) * to_stride);
      auto* odd = reinterpret_cast<float*>(to + (half * 4 + 2 * i + 1) * to_stride);
      _mm256_storeu_ps(even, _mm256_shuffle_ps(t[i], t[i + 2], 0x44));
      _mm256_storeu_ps(odd, _mm256_shuffle_ps(t[i], t[i + 2], 0xee));
    }
  }
}

// 8 by 8 elements of 2 bytes.
__attribute__((always_inline)) inline void HalfBlock8x8(const char* from, std::int64_t from_stride, char* to,
                                                        std::int64_t to_stride) {
  __m128i r[8], t[8];
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) r[j] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + j * from_stride));
#pragma GCC unroll 8
  for (int j = 0; j < 4; ++j) {
    t[2 * j] = _mm_unpacklo_epi16(r[2 * j], r[2 * j + 1]);
    t[2 * j + 1] = _mm_unpackhi_epi16(r[2 * j], r[2 * j + 1]);
  }
#pragma GCC unroll 8
  for (int j = 0; j < 8; j += 4) {
    r[j] = _mm_unpacklo_epi32(t[j], t[j + 2]);
    r[j + 1] = _mm_unpackhi_epi32(t[j], t[j + 2]);
    r[j + 2] = _mm_unpacklo_epi32(t[j + 1], t[j + 3]);
    r[j + 3] = _mm_unpackhi_epi32(t[j + 1], t[j + 3]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) {
    auto* even = reinterpret_cast<__m128i*>(to + 2 * i * to_stride);
    auto* odd = reinterpret_cast<__m128i*>(to + (2 * i + 1) * to_stride);
    _mm_storeu_si128(even, _mm_unpacklo_epi64(r[i], r[i + 4]));
    _mm_storeu_si128(odd, _mm_unpackhi_epi64(r[i], r[i + 4]));
  }
}

// Blocks side by side in `from`, below each other in `to`.
__attribute__((target("avx2"))) void WordBlocks(const char* from, std::int64_t from_stride, char* to,
                                                std::int64_t to_stride, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; i += 8) Block8x8(from + i * 4, from_stride, to + i * to_stride, to_stride);
}
void HalfBlocks(const char* from, std::int64_t from_stride, char* to, std::int64_t to_stride, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; i += 8) HalfBlock8x8(from + i * 2, from_stride, to + i * to_stride, to_stride);
}

// Whole blocks in registers, the edges one by one.
template <typename T, void (*Blocks)(const char*, std::int64_t, char*, std::int64_t, std::int64_t)>
void InBlocks(const char* from, std::int64_t from_stride, char* to, std::int64_t to_stride, std::int64_t rows,
              std::int64_t columns) {
  constexpr std::int64_t kSize = sizeof(T);
  const std::int64_t full_rows = rows / 8 * 8, full_columns = columns / 8 * 8;
  for (std::int64_t j = 0; j < full_columns; j += 8) {
    Blocks(from + j * from_stride, from_stride, to + j * kSize, to_stride, full_rows);
  }
  Plain<T>(from + full_columns * from_stride, from_stride, to + full_columns * kSize, to_stride, full_rows,
           columns - full_columns);
  Plain<T>(from + full_rows * kSize, from_stride, to + full_rows * to_stride, to_stride, rows - full_rows, columns);
}
#endif

}  // namespace

void TransposeTile(int element, const char* from, std::int64_t from_stride, char* to, std::int64_t to_stride,
                   std::int64_t rows, std::int64_t columns) {
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2");
  if (element == 4 && avx2) {
    return InBlocks<std::uint32_t, WordBlocks>(from, from_stride, to, to_stride, rows, columns);
  }
  if (element == 2) return InBlocks<std::uint16_t, HalfBlocks>(from, from_stride, to, to_stride, rows, columns);
#endif
  switch (element) {
    case 1:
      return Plain<std::uint8_t>(from, from_stride, to, to_stride, rows, columns);
    case 2:
      return Plain<std::uint16_t>(from, from_stride, to, to_stride, rows, columns);
    case 4:
      return Plain<std::uint32_t>(from, from_stride, to, to_stride, rows, columns);
    default:
      return Plain<std::uint64_t>(from, from_stride, to, to_stride, rows, columns);
  }
}

}  // namespace framefuse::cpu
