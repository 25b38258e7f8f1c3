// The device code that programs are made of, in pieces: element types, vectors of elements with one wide and one
// guarded way to memory, functions that C++ has no name for, reductions. No headers: it compiles under NVRTC and nvcc.
// A program starts with the pieces that its kernels name, because NVRTC's time goes with the text. Owner:
// backends/emit.
#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "backends/emit/cuda/print_cuda.h"

namespace framefuse::emit {
namespace {

// `names`: what the piece declares, or what its overloads are for (buffers of it, where its name is everywhere),
// separated by spaces; it is taken where later text has one of them, and `also` (empty: always).
struct Piece {
  std::string_view names, text;
  bool machine = false;  // in PTX: others stand in for it on other machines
  std::string_view also = "";
};

// Pieces that are one instruction.
#define FF_INSTRUCTION(name, instruction)                                       \
  {                                                                             \
    name,                                                                       \
        "FF_INLINE float " name "(float v) {\n  float r;\n  asm(\"" instruction \
        " %0, %1;\" : \"=f\"(r) : \"f\"(v));\n  return r;\n}\n",                \
        true                                                                    \
  }
#define FF_INSTRUCTION_OF_TWO(name, instruction)                                         \
  {                                                                                      \
    name,                                                                                \
        "FF_INLINE float " name "(float a, float b) {\n  float r;\n  asm(\"" instruction \
        " %0, %1, %2;\" : \"=f\"(r) : \"f\"(a), \"f\"(b));\n  return r;\n}\n",           \
        true                                                                             \
  }

constexpr Piece kPieces[] = {
    // NVRTC spends milliseconds on a header of its own, which can be left out: these are the names of it that are used.
    {"", R"(#ifndef __device__
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __grid_constant__ __attribute__((grid_constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(n) __attribute__((aligned(n)))
#define FF_BUILTIN extern "C" const __device__ uint3 __attribute__((device_builtin))
FF_BUILTIN threadIdx;
FF_BUILTIN blockIdx;
FF_BUILTIN gridDim;
enum __attribute__((device_builtin)) cudaRoundMode { cudaRoundNearest, cudaRoundZero, cudaRoundPosInf, cudaRoundMinInf };
#endif
)"},
    {"__shfl_xor_sync", R"(#ifdef FF_BUILTIN
__device__ int __shfl_xor_sync(unsigned mask, int value, int lanes, int width = 32);
__device__ long long __shfl_xor_sync(unsigned mask, long long value, int lanes, int width = 32);
__device__ float __shfl_xor_sync(unsigned mask, float value, int lanes, int width = 32);
__device__ double __shfl_xor_sync(unsigned mask, double value, int lanes, int width = 32);
#endif
)"},
    {"", R"(typedef long long i64;
typedef int i32;
typedef unsigned u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef unsigned char u8;
#define FF_INLINE __device__ __forceinline__
// What a kernel is given: buffers, then sizes as form.h lays them out.
template <int buffers, int sizes> struct Args { void* b[buffers]; i64 s[sizes]; };
)"},
    {"divide", R"(// n / d. u32: `d` holds the multiplier and the shift that stand for it (n < 2^31).
FF_INLINE u32 divide(u32 n, i64 d) { return (__umulhi(n, (u32)d) + n) >> (u32)((u64)d >> 32); }
FF_INLINE i64 divide(i64 n, i64 d) { return n / d; }
)"},
    {"in_row",
     R"(extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, unsigned long);
// An index of a row of n. Another one ends the program as eager's kernels do: with a device-side assertion.
FF_INLINE i64 in_row(i64 i, i64 n) {
  if (i < 0 || i >= n) __assertfail("an index is out of range", "framefuse.cu", 0, "in_row", 1);
  return i;
}
)"},
    {"float", "FF_INLINE float load(float v) { return v; }\n"},
    {"double", "FF_INLINE double load(double v) { return v; }\n"},
    {"i64* i32* short* char* u8* bool*", R"(FF_INLINE i64 load(i64 v) { return v; }
FF_INLINE i32 load(i32 v) { return v; }
FF_INLINE i32 load(short v) { return v; }
FF_INLINE i32 load(signed char v) { return v; }
FF_INLINE i32 load(u8 v) { return v; }
FF_INLINE bool load(bool v) { return v; }
)"},
    {"bf16", R"(struct bf16 { u16 bits; };
FF_INLINE float load(bf16 v) { return __uint_as_float((u32)v.bits << 16); }
)"},
    {"f16", "struct f16 { u16 bits; };\n"},
    {"f16", R"(FF_INLINE float load(f16 v) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v.bits));
  return r;
}
FF_INLINE u16 half_bits(float v) {
  u16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(v));
  return r;
}
)",
     true},
    {"bf16_pair", R"(#if __CUDA_ARCH__ >= 800
FF_INLINE u32 bf16_pair(float low, float high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
#else
FF_INLINE u32 bf16_one(float v) {
  const u32 b = __float_as_uint(v);
  return v != v ? 0x7fc0u : (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
}
FF_INLINE u32 bf16_pair(float low, float high) { return bf16_one(low) | bf16_one(high) << 16; }
#endif
)",
     true},
    {"max_nan min_nan", R"(#if __CUDA_ARCH__ >= 800
FF_INLINE float max_nan(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
FF_INLINE float min_nan(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
#endif
)",
     true},
    FF_INSTRUCTION("reciprocal", "rcp.approx.f32"),
    FF_INSTRUCTION("reciprocal_of_normal", "rcp.approx.ftz.f32"),
    FF_INSTRUCTION("normal_power_of_two", "ex2.approx.ftz.f32"),  // denormal results are 0
    FF_INSTRUCTION_OF_TWO("divide_for_half", "div.full.f32"),
    FF_INSTRUCTION("sqrt_for_half", "sqrt.approx.f32"),
    FF_INSTRUCTION("tanh_for_bf16", "tanh.approx.f32"),
    FF_INSTRUCTION("binary_logarithm", "lg2.approx.f32"),
    {"read_once", R"(FF_INLINE uint4 read_once(const uint4* p) {
  uint4 r;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(p));
  return r;
}
)",
     true},
    {"max_nan",
     "template <class T> FF_INLINE T max_nan(T a, T b) { return a != a ? a : (b != b ? b : (a > b ? a : b)); }\n"},
    {"min_nan",
     "template <class T> FF_INLINE T min_nan(T a, T b) { return a != a ? a : (b != b ? b : (a < b ? a : b)); }\n"},
    {"max_raw", "template <class T> FF_INLINE T max_raw(T a, T b) { return a > b ? a : b; }\n"},
    {"min_raw", "template <class T> FF_INLINE T min_raw(T a, T b) { return a < b ? a : b; }\n"},
    {"sigmoid", R"(FF_INLINE float sigmoid(float x) { return reciprocal(1.0f + expf(-x)); }
FF_INLINE double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
)"},
    // For results that are rounded to halves: exact to 2^-16, or to |x| * 1e-7.
    {"exp_for_half", R"(// The square of the root: denormal results come of a product.
FF_INLINE float exp_for_half(float x) {
  const float root = normal_power_of_two(x * 0.721347520f);
  return root * root;
}
)"},
    {"reciprocal_for_half", "FF_INLINE float reciprocal_for_half(float x) { return divide_for_half(1.0f, x); }\n"},
    {"sigmoid_for_half",
     R"(// 1 / (1 + e^-x), with a quarter of the sum, of which 1 / stays normal where the result is denormal.
FF_INLINE float sigmoid_for_half(float x) {
  return 0.25f * reciprocal_of_normal(0.25f + normal_power_of_two(fmaf(x, -1.44269504f, -2.0f)));
}
)"},
    {"exp_beside_one", R"(// x at most 0; exact to 2e-7 of 1: for sums with a term of 1.
FF_INLINE float exp_beside_one(float x) { return normal_power_of_two(x * 1.44269504f); }
)"},
    {"tanh_beside_one", R"(// Exact to 2e-7 of 1: where 1 is added.
FF_INLINE float tanh_beside_one(float x) {
  return fmaf(-2.0f, reciprocal_of_normal(1.0f + normal_power_of_two(x * 2.88539008f)), 1.0f);
}
)"},
    {"tanh_for_half", R"(FF_INLINE float tanh_for_half(float x) {
  const float near_zero = x * fmaf(x * x, -0.333333343f, 1.0f);
  return fabsf(x) < 0.0625f ? near_zero : tanh_beside_one(x);
}
)"},
    {"erf_beside_one", R"(// 1 - 2^p(|x|), exact to 4e-6 of 1 and, below 0, to that part of what is left of 1 + erf x.
FF_INLINE float erf_beside_one(float x) {
  const float t = min_nan(fabsf(x), 4.2f);
  float p = fmaf(-2.02705703e-5f, t, 4.85526123e-4f);
  p = fmaf(p, t, -5.22103633e-3f);
  p = fmaf(p, t, 3.39045750e-2f);
  p = fmaf(p, t, -1.52423597e-1f);
  p = fmaf(p, t, -9.17084571e-1f);
  p = fmaf(p, t, -1.62806277f);
  return copysignf(1.0f - normal_power_of_two(p * t), x);
}
)"},
    {"erf_for_half", R"(FF_INLINE float erf_for_half(float x) {
  const float s = x * x, near_zero = fmaf(fmaf(1.03277437e-1f, s, -3.75241139e-1f), s, 1.12836681f) * x;
  return fabsf(x) < 0.5f ? near_zero : erf_beside_one(x);
}
)"},
    {"log_near_one", R"(// log(1 + x), where |x| is at most a thirty-second.
FF_INLINE float log_near_one(float x) {
  return x * fmaf(x, fmaf(x, fmaf(x, -0.25f, 0.333333343f), -0.5f), 1.0f);
}
)"},
    {"log_for_half", R"(FF_INLINE float log_for_half(float x) {
  const float past_one = x - 1.0f;
  return fabsf(past_one) < 0.03125f ? log_near_one(past_one) : binary_logarithm(x) * 0.693147182f;
}
)"},
    {"log1p_for_half", R"(FF_INLINE float log1p_for_half(float x) {
  return fabsf(x) < 0.03125f ? log_near_one(x) : binary_logarithm(x + 1.0f) * 0.693147182f;
}
)"},
    {"expm1_for_half", R"(FF_INLINE float expm1_for_half(float x) {
  const float near_zero = x * fmaf(x, fmaf(x, fmaf(x, 4.16666679e-2f, 0.166666672f), 0.5f), 1.0f);
  const float root = normal_power_of_two(x * 0.721347520f);
  return fabsf(x) < 0.0625f ? near_zero : fmaf(root, root, -1.0f);
}
)"},
    {"round_bf16",
     "FF_INLINE float round_bf16(float v) { return __uint_as_float(bf16_pair(0.0f, v) & 0xffff0000u); }\n"},
    {"round_f16", "FF_INLINE float round_f16(float v) { f16 h = {half_bits(v)}; return load(h); }\n"},
    {"pack", "template <class T, class V> FF_INLINE void pack(T& to, V v) { to = (T)v; }\n"},
    {"bf16", "FF_INLINE void pack(bf16& to, float v) { to.bits = (u16)bf16_pair(v, 0.0f); }\n"},
    {"f16", "FF_INLINE void pack(f16& to, float v) { to.bits = half_bits(v); }\n"},
    {"store", "template <class T, class V> FF_INLINE void store(T* p, V v) { T t; pack(t, v); *p = t; }\n"},
    {"Vec", R"(// V elements in registers.
template <int bytes> struct Word { typedef uint4 type; };
template <> struct Word<8> { typedef uint2 type; };
template <> struct Word<4> { typedef u32 type; };
template <> struct Word<2> { typedef u16 type; };
template <> struct Word<1> { typedef u8 type; };
template <class T, int V> struct alignas(V * sizeof(T) < 16 ? V * sizeof(T) : 16) Vec {
  static constexpr int words = (V * sizeof(T) + 15) / 16;
  typedef typename Word<(V * sizeof(T) < 16 ? V * sizeof(T) : 16)>::type W;
  T e[V];
};
)"},
    {"load_vec", R"(template <class T, int V> FF_INLINE void load_vec(Vec<T, V>& x, const T* p) {
  typedef Vec<T, V> Whole;
#pragma unroll
  for (int j = 0; j < Whole::words; ++j) ((typename Whole::W*)&x)[j] = ((const typename Whole::W*)p)[j];
}
)"},
    {"load_once", R"(// What will not be read again.
template <class W> FF_INLINE W read_once(const W* p) { return *p; }
template <class T, int V> FF_INLINE void load_once(Vec<T, V>& x, const T* p) {
  typedef Vec<T, V> Whole;
#pragma unroll
  for (int j = 0; j < Whole::words; ++j) ((typename Whole::W*)&x)[j] = read_once(((const typename Whole::W*)p) + j);
}
)"},
    {"load_part", R"(// `fast`: p is aligned; n: how many elements are there.
template <class T, int V> FF_INLINE void load_part(Vec<T, V>& x, const T* p, int n, bool fast) {
  if (fast && n >= V) {
    load_vec(x, p);
  } else {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      T t = {};
      if (k < n) t = p[k];
      x.e[k] = t;
    }
  }
}
)"},
    {"pair", "template <class T> FF_INLINE u32 pair(T a, T b) { return (u32)*(u16*)&a | (u32)*(u16*)&b << 16; }\n"},
    {"Lanes", R"(template <class L, int V> struct Lanes { L e[V]; };
)"},
    {"pack_all", R"(template <class T, class L, int V> FF_INLINE void pack_all(Vec<T, V>& x, const Lanes<L, V>& y) {
#pragma unroll
  for (int k = 0; k < V; ++k) pack(x.e[k], y.e[k]);
}
)"},
    {"pack_all", R"(template <int V> FF_INLINE void pack_all(Vec<bf16, V>& x, const Lanes<float, V>& y) {
#pragma unroll
  for (int k = 0; k + 1 < V; k += 2) *(u32*)&x.e[k] = bf16_pair(y.e[k], y.e[k + 1]);
  if (V == 1) pack(x.e[0], y.e[0]);
}
)",
     false, "bf16"},
    {"write_vec", R"(template <class T, int V> FF_INLINE void write_vec(T* p, const Vec<T, V>& x) {
  typedef Vec<T, V> Whole;
#pragma unroll
  for (int j = 0; j < Whole::words; ++j) ((typename Whole::W*)p)[j] = ((const typename Whole::W*)&x)[j];
}
)"},
    {"store_vec", R"(template <class T, class L, int V> FF_INLINE void store_vec(T* p, const Lanes<L, V>& y) {
  Vec<T, V> x;
  pack_all(x, y);
  write_vec(p, x);
}
)"},
    {"store_part",
     R"(template <class T, class L, int V> FF_INLINE void store_part(T* p, const Lanes<L, V>& y, int n, bool fast) {
  Vec<T, V> x;
  pack_all(x, y);
  if (fast && n >= V) {
    write_vec(p, x);
  } else {
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (k < n) p[k] = x.e[k];
  }
}
)"},
    {"Sum", "struct Sum { template <class T> FF_INLINE T operator()(T a, T b) const { return a + b; } };\n"},
    {"Prod", "struct Prod { template <class T> FF_INLINE T operator()(T a, T b) const { return a * b; } };\n"},
    {"Max", "struct Max { template <class T> FF_INLINE T operator()(T a, T b) const { return max_nan(a, b); } };\n"},
    {"Min", "struct Min { template <class T> FF_INLINE T operator()(T a, T b) const { return min_nan(a, b); } };\n"},
    {"MaxRaw",
     "struct MaxRaw { template <class T> FF_INLINE T operator()(T a, T b) const { return max_raw(a, b); } };\n"},
    {"reduce_warp", R"(// All threads get the result; the order of operations is fixed by the shape.
template <class Op, class T> FF_INLINE T reduce_warp(T v, Op op) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) v = op(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}
)"},
    {"reduce_block", R"(template <int warps, class Op, class T> FF_INLINE T reduce_block(T v, T* parts, Op op) {
  v = reduce_warp(v, op);
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = v;
  __syncthreads();
  v = parts[threadIdx.x & (warps - 1)];
#pragma unroll
  for (int d = warps / 2; d > 0; d >>= 1) v = op(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}
)"},
};

#undef FF_INSTRUCTION
#undef FF_INSTRUCTION_OF_TWO

bool HasWord(std::string_view text, std::string_view word) {
  const auto is_name = [](char c) { return c == '_' || absl::ascii_isalnum(static_cast<unsigned char>(c)); };
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_name(text[at - 1])) && (end == text.size() || !is_name(text[end]))) return true;
  }
  return false;
}

bool Needs(std::string_view text, const Piece& piece) {
  if (!piece.also.empty() && !HasWord(text, piece.also)) return false;
  std::string_view names = piece.names;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    if (HasWord(text, names.substr(0, end))) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return piece.names.empty();
}

}  // namespace

std::string CudaProgram(std::string_view kernels, std::string_view machine) {
  std::string program(machine);
  program += kernels;
  const Piece* first_of_machine = nullptr;
  std::vector<const Piece*> taken;
  for (std::size_t p = std::size(kPieces); p-- > 0;) {
    if (kPieces[p].machine) first_of_machine = &kPieces[p];
    if ((kPieces[p].machine && !machine.empty()) || !Needs(program, kPieces[p])) continue;
    taken.push_back(&kPieces[p]);
    program += kPieces[p].text;
  }
  program.clear();
  bool before = true;  // the machine's own pieces
  for (auto piece = taken.rbegin(); piece != taken.rend(); ++piece) {
    if (before && *piece > first_of_machine) {
      program += machine;
      before = false;
    }
    program += (*piece)->text;
  }
  if (before) program += machine;
  return program += kernels;
}

}  // namespace framefuse::emit
