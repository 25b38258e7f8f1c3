// The device code that every printed translation unit starts with. Owner: backends/emit.
#include "backends/emit/cuda/print_cuda.h"

namespace framefuse::emit {

const std::string& CudaPrelude() {
  static const std::string* text = new std::string(R"(typedef long long i64;
typedef int i32;
typedef unsigned short u16;
typedef unsigned char u8;
struct bf16 { u16 bits; };
struct f16 { u16 bits; };

__device__ __forceinline__ float load(const float* p) { return *p; }
__device__ __forceinline__ double load(const double* p) { return *p; }
__device__ __forceinline__ i64 load(const i64* p) { return *p; }
__device__ __forceinline__ i32 load(const i32* p) { return *p; }
__device__ __forceinline__ i32 load(const short* p) { return *p; }
__device__ __forceinline__ i32 load(const signed char* p) { return *p; }
__device__ __forceinline__ i32 load(const u8* p) { return *p; }
__device__ __forceinline__ bool load(const bool* p) { return *p; }
__device__ __forceinline__ float load(const bf16* p) { return __uint_as_float((unsigned)p->bits << 16); }
__device__ __forceinline__ float load(const f16* p) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(p->bits));
  return r;
}
__device__ __forceinline__ float round_bf16(float v) {
  unsigned b = __float_as_uint(v);
  return __uint_as_float(v != v ? 0x7fc00000u : ((b + 0x7fffu + ((b >> 16) & 1u)) & 0xffff0000u));
}
__device__ __forceinline__ u16 half_bits(float v) {
  u16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(v));
  return r;
}
__device__ __forceinline__ float round_f16(float v) { f16 h = {half_bits(v)}; return load(&h); }
template <class T, class V> __device__ __forceinline__ void store(T* p, V v) { *p = (T)v; }
__device__ __forceinline__ void store(bf16* p, float v) { p->bits = (u16)(__float_as_uint(round_bf16(v)) >> 16); }
__device__ __forceinline__ void store(f16* p, float v) { p->bits = half_bits(v); }

template <class T> __device__ __forceinline__ T max_nan(T a, T b) { return a != a ? a : (b != b ? b : (a > b ? a : b)); }
template <class T> __device__ __forceinline__ T min_nan(T a, T b) { return a != a ? a : (b != b ? b : (a < b ? a : b)); }
template <class T> __device__ __forceinline__ T max_raw(T a, T b) { return a > b ? a : b; }
template <class T> __device__ __forceinline__ T min_raw(T a, T b) { return a < b ? a : b; }
template <class T> __device__ __forceinline__ T sigmoid(T x) { T e = exp(x < 0 ? x : -x); return (x < 0 ? e : (T)1) / ((T)1 + e); }

struct Sum { template <class T> __device__ T operator()(T a, T b) const { return a + b; } };
struct Prod { template <class T> __device__ T operator()(T a, T b) const { return a * b; } };
struct Max { template <class T> __device__ T operator()(T a, T b) const { return max_nan(a, b); } };
struct Min { template <class T> __device__ T operator()(T a, T b) const { return min_nan(a, b); } };

// All threads of the block get the result; the order of additions is fixed.
template <class Op, class T> __device__ __forceinline__ T reduce_block(T v, T identity, Op op) {
  __shared__ T parts[32];
  for (int d = 16; d > 0; d >>= 1) v = op(v, __shfl_xor_sync(0xffffffffu, v, d));
  __syncthreads();
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = v;
  __syncthreads();
  v = (threadIdx.x & 31) < (blockDim.x >> 5) ? parts[threadIdx.x & 31] : identity;
  for (int d = 16; d > 0; d >>= 1) v = op(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}
// The warps of a block hold partial results of the same 32 columns.
template <class Op, class T> __device__ __forceinline__ T reduce_warps(T v, Op op) {
  __shared__ T parts[32][33];
  __syncthreads();
  parts[threadIdx.x >> 5][threadIdx.x & 31] = v;
  __syncthreads();
  T r = parts[0][threadIdx.x & 31];
  for (int w = 1; w < (int)(blockDim.x >> 5); ++w) r = op(r, parts[w][threadIdx.x & 31]);
  return r;
}
)");
  return *text;
}

}  // namespace framefuse::emit
