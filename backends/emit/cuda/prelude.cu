// The device code that programs are made of, in snippets: element types, vectors of elements with one wide and one
// guarded way to memory, functions that C++ has no name for, reductions. No headers: it compiles under NVRTC and nvcc.
// A program starts with the snippets that its kernels name (prelude.cpp), because NVRTC's time goes with the text.
//
// A line `//= names` begins a snippet: what it declares, or what its overloads are for (buffers of it, where its name is
// everywhere); it is taken where later text has one of the names. `*`: always. `| with NAME`: only where the text has that,
// too. `| machine`: in PTX; other text stands in for it on other machines.
//
// The first one: NVRTC spends milliseconds on a header of its own, which can be left out. These are the names of it that
// are used.

//= *
#ifndef __device__
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
//= __shfl_xor_sync
#ifdef FF_BUILTIN
__device__ int __shfl_xor_sync(unsigned mask, int value, int lanes, int width = 32);
__device__ long long __shfl_xor_sync(unsigned mask, long long value, int lanes, int width = 32);
__device__ float __shfl_xor_sync(unsigned mask, float value, int lanes, int width = 32);
__device__ double __shfl_xor_sync(unsigned mask, double value, int lanes, int width = 32);
#endif
//= *
typedef long long i64;
typedef int i32;
typedef unsigned u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef unsigned char u8;
#define FF_INLINE __device__ __forceinline__
// What a kernel is given: buffers, then sizes as form.h lays them out.
template <int buffers, int sizes> struct Args { void* b[buffers]; i64 s[sizes]; };
//= divide
// n / d. u32: `d` holds the multiplier and the shift that stand for it (n < 2^31).
FF_INLINE u32 divide(u32 n, i64 d) { return (__umulhi(n, (u32)d) + n) >> (u32)((u64)d >> 32); }
FF_INLINE i64 divide(i64 n, i64 d) { return n / d; }
//= in_row
extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, unsigned long);
// An index of a row of n. Another one ends the program as eager's kernels do: with a device-side assertion.
FF_INLINE i64 in_row(i64 i, i64 n) {
  if (i < 0 || i >= n) __assertfail("an index is out of range", "framefuse.cu", 0, "in_row", 1);
  return i;
}
//= float
FF_INLINE float load(float v) { return v; }
//= double
FF_INLINE double load(double v) { return v; }
//= i64* i32* short* char* u8* bool*
FF_INLINE i64 load(i64 v) { return v; }
FF_INLINE i32 load(i32 v) { return v; }
FF_INLINE i32 load(short v) { return v; }
FF_INLINE i32 load(signed char v) { return v; }
FF_INLINE i32 load(u8 v) { return v; }
FF_INLINE bool load(bool v) { return v; }
//= bf16
struct bf16 { u16 bits; };
FF_INLINE float load(bf16 v) { return __uint_as_float((u32)v.bits << 16); }
//= f16
struct f16 { u16 bits; };
//= f16 | machine
FF_INLINE float load(f16 v) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v.bits));
  return r;
}
FF_INLINE u16 half_bits(float v) {
  u16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(v));
  return r;
}
//= bf16_pair | machine
#if __CUDA_ARCH__ >= 800
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
//= max_nan min_nan | machine
#if __CUDA_ARCH__ >= 800
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
//= reciprocal | machine
FF_INLINE float reciprocal(float v) {
  float r;
  asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
//= reciprocal_of_normal | machine
FF_INLINE float reciprocal_of_normal(float v) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
//= normal_power_of_two | machine
FF_INLINE float normal_power_of_two(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
//= divide_for_half | machine
FF_INLINE float divide_for_half(float a, float b) {
  float r;
  asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
//= sqrt_for_half | machine
FF_INLINE float sqrt_for_half(float v) {
  float r;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
//= tanh_for_bf16 | machine
FF_INLINE float tanh_for_bf16(float v) {
  float r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
//= binary_logarithm | machine
FF_INLINE float binary_logarithm(float v) {
  float r;
  asm("lg2.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
//= read_once | machine
FF_INLINE uint4 read_once(const uint4* p) {
  uint4 r;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(p));
  return r;
}
//= max_nan
template <class T> FF_INLINE T max_nan(T a, T b) { return a != a ? a : (b != b ? b : (a > b ? a : b)); }
//= min_nan
template <class T> FF_INLINE T min_nan(T a, T b) { return a != a ? a : (b != b ? b : (a < b ? a : b)); }
//= max_raw
template <class T> FF_INLINE T max_raw(T a, T b) { return a > b ? a : b; }
//= min_raw
template <class T> FF_INLINE T min_raw(T a, T b) { return a < b ? a : b; }
//= sigmoid
FF_INLINE float sigmoid(float x) { return reciprocal(1.0f + expf(-x)); }
FF_INLINE double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
//= exp_for_half
// The square of the root: denormal results come of a product.
FF_INLINE float exp_for_half(float x) {
  const float root = normal_power_of_two(x * 0.721347520f);
  return root * root;
}
//= reciprocal_for_half
FF_INLINE float reciprocal_for_half(float x) { return divide_for_half(1.0f, x); }
//= sigmoid_for_half
// 1 / (1 + e^-x), with a quarter of the sum, of which 1 / stays normal where the result is denormal.
FF_INLINE float sigmoid_for_half(float x) {
  return 0.25f * reciprocal_of_normal(0.25f + normal_power_of_two(fmaf(x, -1.44269504f, -2.0f)));
}
//= exp_beside_one
// x at most 0; exact to 2e-7 of 1: for sums with a term of 1.
FF_INLINE float exp_beside_one(float x) { return normal_power_of_two(x * 1.44269504f); }
//= tanh_beside_one
// Exact to 2e-7 of 1: where 1 is added.
FF_INLINE float tanh_beside_one(float x) {
  return fmaf(-2.0f, reciprocal_of_normal(1.0f + normal_power_of_two(x * 2.88539008f)), 1.0f);
}
//= tanh_for_half
FF_INLINE float tanh_for_half(float x) {
  const float near_zero = x * fmaf(x * x, -0.333333343f, 1.0f);
  return fabsf(x) < 0.0625f ? near_zero : tanh_beside_one(x);
}
//= erf_beside_one
// 1 - 2^p(|x|), exact to 4e-6 of 1 and, below 0, to that part of what is left of 1 + erf x.
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
//= erf_for_half
FF_INLINE float erf_for_half(float x) {
  const float s = x * x, near_zero = fmaf(fmaf(1.03277437e-1f, s, -3.75241139e-1f), s, 1.12836681f) * x;
  return fabsf(x) < 0.5f ? near_zero : erf_beside_one(x);
}
//= log_near_one
// log(1 + x), where |x| is at most a thirty-second.
FF_INLINE float log_near_one(float x) {
  return x * fmaf(x, fmaf(x, fmaf(x, -0.25f, 0.333333343f), -0.5f), 1.0f);
}
//= log_for_half
FF_INLINE float log_for_half(float x) {
  const float past_one = x - 1.0f;
  return fabsf(past_one) < 0.03125f ? log_near_one(past_one) : binary_logarithm(x) * 0.693147182f;
}
//= log1p_for_half
FF_INLINE float log1p_for_half(float x) {
  return fabsf(x) < 0.03125f ? log_near_one(x) : binary_logarithm(x + 1.0f) * 0.693147182f;
}
//= expm1_for_half
FF_INLINE float expm1_for_half(float x) {
  const float near_zero = x * fmaf(x, fmaf(x, fmaf(x, 4.16666679e-2f, 0.166666672f), 0.5f), 1.0f);
  const float root = normal_power_of_two(x * 0.721347520f);
  return fabsf(x) < 0.0625f ? near_zero : fmaf(root, root, -1.0f);
}
//= round_bf16
FF_INLINE float round_bf16(float v) { return __uint_as_float(bf16_pair(0.0f, v) & 0xffff0000u); }
//= round_f16
FF_INLINE float round_f16(float v) { f16 h = {half_bits(v)}; return load(h); }
//= pack
template <class T, class V> FF_INLINE void pack(T& to, V v) { to = (T)v; }
//= bf16
FF_INLINE void pack(bf16& to, float v) { to.bits = (u16)bf16_pair(v, 0.0f); }
//= f16
FF_INLINE void pack(f16& to, float v) { to.bits = half_bits(v); }
//= store
template <class T, class V> FF_INLINE void store(T* p, V v) { T t; pack(t, v); *p = t; }
//= Vec
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
//= load_vec
template <class T, int V> FF_INLINE void load_vec(Vec<T, V>& x, const T* p) {
  typedef Vec<T, V> Whole;
#pragma unroll
  for (int j = 0; j < Whole::words; ++j) ((typename Whole::W*)&x)[j] = ((const typename Whole::W*)p)[j];
}
//= load_once
// What will not be read again.
template <class W> FF_INLINE W read_once(const W* p) { return *p; }
template <class T, int V> FF_INLINE void load_once(Vec<T, V>& x, const T* p) {
  typedef Vec<T, V> Whole;
#pragma unroll
  for (int j = 0; j < Whole::words; ++j) ((typename Whole::W*)&x)[j] = read_once(((const typename Whole::W*)p) + j);
}
//= load_part
// `fast`: p is aligned; n: how many elements are there.
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
//= pair
template <class T> FF_INLINE u32 pair(T a, T b) { return (u32)*(u16*)&a | (u32)*(u16*)&b << 16; }
//= Lanes
template <class L, int V> struct Lanes { L e[V]; };
//= pack_all
template <class T, class L, int V> FF_INLINE void pack_all(Vec<T, V>& x, const Lanes<L, V>& y) {
#pragma unroll
  for (int k = 0; k < V; ++k) pack(x.e[k], y.e[k]);
}
//= pack_all | with bf16
template <int V> FF_INLINE void pack_all(Vec<bf16, V>& x, const Lanes<float, V>& y) {
#pragma unroll
  for (int k = 0; k + 1 < V; k += 2) *(u32*)&x.e[k] = bf16_pair(y.e[k], y.e[k + 1]);
  if (V == 1) pack(x.e[0], y.e[0]);
}
//= write_vec
template <class T, int V> FF_INLINE void write_vec(T* p, const Vec<T, V>& x) {
  typedef Vec<T, V> Whole;
#pragma unroll
  for (int j = 0; j < Whole::words; ++j) ((typename Whole::W*)p)[j] = ((const typename Whole::W*)&x)[j];
}
//= store_vec
template <class T, class L, int V> FF_INLINE void store_vec(T* p, const Lanes<L, V>& y) {
  Vec<T, V> x;
  pack_all(x, y);
  write_vec(p, x);
}
//= store_part
template <class T, class L, int V> FF_INLINE void store_part(T* p, const Lanes<L, V>& y, int n, bool fast) {
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
//= Sum
struct Sum { template <class T> FF_INLINE T operator()(T a, T b) const { return a + b; } };
//= Prod
struct Prod { template <class T> FF_INLINE T operator()(T a, T b) const { return a * b; } };
//= Max
struct Max { template <class T> FF_INLINE T operator()(T a, T b) const { return max_nan(a, b); } };
//= Min
struct Min { template <class T> FF_INLINE T operator()(T a, T b) const { return min_nan(a, b); } };
//= MaxRaw
struct MaxRaw { template <class T> FF_INLINE T operator()(T a, T b) const { return max_raw(a, b); } };
//= reduce_warp
// All threads get the result; the order of operations is fixed by the shape.
template <class Op, class T> FF_INLINE T reduce_warp(T v, Op op) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) v = op(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}
//= reduce_block
template <int warps, class Op, class T> FF_INLINE T reduce_block(T v, T* parts, Op op) {
  v = reduce_warp(v, op);
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = v;
  __syncthreads();
  v = parts[threadIdx.x & (warps - 1)];
#pragma unroll
  for (int d = warps / 2; d > 0; d >>= 1) v = op(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}
