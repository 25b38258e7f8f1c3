// The device code that every printed translation unit starts with: element types, vectors of elements with one wide
// and one guarded way to memory, functions that C++ has no name for, reductions. No headers: it compiles under NVRTC
// and nvcc. Owner: backends/emit.
#include "backends/emit/cuda/print_cuda.h"

namespace framefuse::emit {
namespace {

constexpr const char* kTypes = R"(typedef long long i64;
typedef int i32;
typedef unsigned u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef unsigned char u8;
struct bf16 { u16 bits; };
struct f16 { u16 bits; };
#define FF_INLINE __device__ __forceinline__

// What a kernel is given: buffers, then sizes as form.h lays them out.
template <int buffers, int sizes> struct Args { void* b[buffers]; i64 s[sizes]; };

// n / d. u32: `d` holds the multiplier and the shift that stand for it (n < 2^31).
FF_INLINE u32 divide(u32 n, i64 d) { return (__umulhi(n, (u32)d) + n) >> (u32)((u64)d >> 32); }
FF_INLINE i64 divide(i64 n, i64 d) { return n / d; }

FF_INLINE float load(float v) { return v; }
FF_INLINE double load(double v) { return v; }
FF_INLINE i64 load(i64 v) { return v; }
FF_INLINE i32 load(i32 v) { return v; }
FF_INLINE i32 load(short v) { return v; }
FF_INLINE i32 load(signed char v) { return v; }
FF_INLINE i32 load(u8 v) { return v; }
FF_INLINE bool load(bool v) { return v; }
FF_INLINE float load(bf16 v) { return __uint_as_float((u32)v.bits << 16); }
)";

// What is written in PTX; the emulation of tests/kernels has its own.
constexpr const char* kPtx = R"(FF_INLINE float load(f16 v) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v.bits));
  return r;
}
FF_INLINE u16 half_bits(float v) {
  u16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(v));
  return r;
}
#if __CUDA_ARCH__ >= 800
FF_INLINE u32 bf16_pair(float low, float high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
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
#else
FF_INLINE u32 bf16_one(float v) {
  const u32 b = __float_as_uint(v);
  return v != v ? 0x7fc0u : (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
}
FF_INLINE u32 bf16_pair(float low, float high) { return bf16_one(low) | bf16_one(high) << 16; }
#endif
FF_INLINE float reciprocal(float v) {
  float r;
  asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
FF_INLINE float power_of_two(float v) {
  float r;
  asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
)";

constexpr const char* kVectors =
    R"(FF_INLINE float round_bf16(float v) { return __uint_as_float(bf16_pair(0.0f, v) & 0xffff0000u); }
FF_INLINE float round_f16(float v) { f16 h = {half_bits(v)}; return load(h); }
template <class T, class V> FF_INLINE void pack(T& to, V v) { to = (T)v; }
FF_INLINE void pack(bf16& to, float v) { to.bits = (u16)bf16_pair(v, 0.0f); }
FF_INLINE void pack(f16& to, float v) { to.bits = half_bits(v); }
template <class T, class V> FF_INLINE void store(T* p, V v) { T t; pack(t, v); *p = t; }

// V elements in registers.
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
template <class T, int V> FF_INLINE void load_vec(Vec<T, V>& x, const T* p) {
  typedef Vec<T, V> Whole;
#pragma unroll
  for (int j = 0; j < Whole::words; ++j) ((typename Whole::W*)&x)[j] = ((const typename Whole::W*)p)[j];
}
// `fast`: p is aligned; n: how many elements are there.
template <class T, int V> FF_INLINE void load_vec(Vec<T, V>& x, const T* p, int n, bool fast) {
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
template <class L, int V> struct Lanes { L e[V]; };
template <class T, class L, int V> FF_INLINE void pack_all(Vec<T, V>& x, const Lanes<L, V>& y) {
#pragma unroll
  for (int k = 0; k < V; ++k) pack(x.e[k], y.e[k]);
}
template <int V> FF_INLINE void pack_all(Vec<bf16, V>& x, const Lanes<float, V>& y) {
#pragma unroll
  for (int k = 0; k + 1 < V; k += 2) *(u32*)&x.e[k] = bf16_pair(y.e[k], y.e[k + 1]);
  if (V == 1) pack(x.e[0], y.e[0]);
}
template <class T, int V> FF_INLINE void write_vec(T* p, const Vec<T, V>& x) {
  typedef Vec<T, V> Whole;
#pragma unroll
  for (int j = 0; j < Whole::words; ++j) ((typename Whole::W*)p)[j] = ((const typename Whole::W*)&x)[j];
}
template <class T, class L, int V> FF_INLINE void store_vec(T* p, const Lanes<L, V>& y) {
  Vec<T, V> x;
  pack_all(x, y);
  write_vec(p, x);
}
template <class T, class L, int V> FF_INLINE void store_vec(T* p, const Lanes<L, V>& y, int n, bool fast) {
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

template <class T> FF_INLINE T max_nan(T a, T b) { return a != a ? a : (b != b ? b : (a > b ? a : b)); }
template <class T> FF_INLINE T min_nan(T a, T b) { return a != a ? a : (b != b ? b : (a < b ? a : b)); }
template <class T> FF_INLINE T max_raw(T a, T b) { return a > b ? a : b; }
template <class T> FF_INLINE T min_raw(T a, T b) { return a < b ? a : b; }
FF_INLINE float sigmoid(float x) { return reciprocal(1.0f + expf(-x)); }
// For results that are rounded to halves: exact to about |x| * 1e-7.
FF_INLINE float exp_for_half(float x) { return power_of_two(x * 1.44269504f); }
FF_INLINE float sigmoid_for_half(float x) { return reciprocal(1.0f + power_of_two(x * -1.44269504f)); }
FF_INLINE double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
)";

constexpr const char* kReductions =
    R"(struct Sum { template <class T> FF_INLINE T operator()(T a, T b) const { return a + b; } };
struct Prod { template <class T> FF_INLINE T operator()(T a, T b) const { return a * b; } };
struct Max { template <class T> FF_INLINE T operator()(T a, T b) const { return max_nan(a, b); } };
struct Min { template <class T> FF_INLINE T operator()(T a, T b) const { return min_nan(a, b); } };
struct MaxRaw { template <class T> FF_INLINE T operator()(T a, T b) const { return max_raw(a, b); } };

// All threads get the result; the order of operations is fixed by the shape.
template <class Op, class T> FF_INLINE T reduce_warp(T v, Op op) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) v = op(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}
template <int warps, class Op, class T> FF_INLINE T reduce_block(T v, T* parts, Op op) {
  v = reduce_warp(v, op);
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = v;
  __syncthreads();
  v = parts[threadIdx.x & (warps - 1)];
#pragma unroll
  for (int d = warps / 2; d > 0; d >>= 1) v = op(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}
)";

}  // namespace

const std::string& CudaPrelude() {
  static const std::string* text = new std::string(std::string(kTypes) + kPtx + kVectors + kReductions);
  return *text;
}

std::string CudaPreludeWith(std::string_view ptx) {
  return std::string(kTypes) + std::string(ptx) + kVectors + kReductions;
}

}  // namespace framefuse::emit
