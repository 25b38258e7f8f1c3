"""What NVRTC takes for a kernel as people write it by hand: residual + layer norm of 4096 bf16, no headers, warm.

    python benchmarks/nvrtc_by_hand.py [--times 12] [--include FOLDER_WITH_CUDA_BF16_H]

One JSON row: milliseconds of the first program of the process, and of --times more with the default options, with those that
make it hurry, and, with --include, behind cuda_bf16.h. Needs NVRTC, which comes with CUDA builds of torch, and no GPU.
"""

import argparse
import ctypes
import glob
import json
import os
import time

import torch

KERNEL = r"""
typedef unsigned int u32;
__device__ __forceinline__ float lo(u32 w) { return __uint_as_float(w << 16); }
__device__ __forceinline__ float hi(u32 w) { return __uint_as_float(w & 0xffff0000u); }
__device__ __forceinline__ u32 pack(float a, float b) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
  return r;
}
__device__ __forceinline__ float sum(float v, float* parts) {
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = v;
  __syncthreads();
  v = parts[threadIdx.x & 15];
  for (int d = 8; d; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  __syncthreads();
  return v;
}
extern "C" __global__ void __launch_bounds__(512)
NAME(const uint4* x, const uint4* r, const uint4* w, const uint4* b, uint4* s, uint4* y, int rows) {
  __shared__ float parts[16];
  const int t = threadIdx.x;
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    const uint4 a = x[row * 512 + t], c = r[row * 512 + t];
    const u32 av[4] = {a.x, a.y, a.z, a.w}, cv[4] = {c.x, c.y, c.z, c.w};
    u32 o[4];
    float v[8], m = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      o[i] = pack(lo(av[i]) + lo(cv[i]), hi(av[i]) + hi(cv[i]));
      v[2 * i] = lo(o[i]);
      v[2 * i + 1] = hi(o[i]);
      m += v[2 * i] + v[2 * i + 1];
    }
    s[row * 512 + t] = make_uint4(o[0], o[1], o[2], o[3]);
    m = sum(m, parts) / 4096;
    float q = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) q += (v[i] - m) * (v[i] - m);
    const float inv = rsqrtf(sum(q, parts) / 4096 + 1e-5f);
    const uint4 g = w[t], h = b[t];
    const u32 gv[4] = {g.x, g.y, g.z, g.w}, hv[4] = {h.x, h.y, h.z, h.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      o[i] = pack((v[2 * i] - m) * inv * lo(gv[i]) + lo(hv[i]), (v[2 * i + 1] - m) * inv * hi(gv[i]) + hi(hv[i]));
    }
    y[row * 512 + t] = make_uint4(o[0], o[1], o[2], o[3]);
  }
}
"""


def nvrtc():
    packages = os.path.dirname(os.path.dirname(torch.__file__))
    found = sorted(glob.glob(packages + "/nvidia/**/libnvrtc.so.1[23]", recursive=True))
    return ctypes.CDLL(found[-1] if found else "libnvrtc.so")


def milliseconds(library, name, options, before=""):
    """One program, made and thrown away; each has a name of its own."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    start = time.perf_counter()
    text = (before + KERNEL.replace("NAME", name)).encode()
    given = [b"--gpu-architecture=sm_90", b"--no-cache", *options]
    library.nvrtcCreateProgram(ctypes.byref(program), text, b"kernel.cu", 0, None, None)
    failed = library.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*given))
    if failed:
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        raise RuntimeError(f"NVRTC: {log.value.decode()}")
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return round((time.perf_counter() - start) * 1e3, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=12)
    parser.add_argument("--include", help="a folder with cuda_bf16.h")
    args = parser.parse_args()
    library = nvrtc()
    row = {"part": "compile", "case": "a row kernel written by hand, by NVRTC", "first_ms": milliseconds(library, "first", [])}
    row["ms"] = [milliseconds(library, f"k{i}", []) for i in range(args.times)]
    hurry = [b"--minimal", b"--Ofast-compile=min"]
    row["ms_minimal_and_fast"] = [milliseconds(library, f"f{i}", hurry) for i in range(args.times)]
    if args.include:
        header = "#include <cuda_bf16.h>\n"
        row["ms_with_cuda_bf16.h"] = [milliseconds(library, f"h{i}", [b"-I" + args.include.encode()], header) for i in range(5)]
    print(json.dumps(row))


if __name__ == "__main__":
    main()
