#include "tests/kernels/cuda_emulation.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "backends/emit/cuda/print_cuda.h"
#include "common/status.h"

namespace framefuse::testing {
namespace {

constexpr const char* kNames = R"(#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#define __global__
#define __device__
#define __shared__ static
#define __forceinline__ inline
#define __grid_constant__
#define __restrict__
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct Place { unsigned x, y; };
static Place threadIdx, blockIdx, blockDim, gridDim;
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
template <class To, class From> static inline To bits(From v) { To t; memcpy(&t, &v, sizeof t); return t; }
static inline float __uint_as_float(unsigned v) { return bits<float>(v); }
static inline float __int_as_float(int v) { return bits<float>(v); }
static inline unsigned __float_as_uint(float v) { return bits<unsigned>(v); }
static inline int __float_as_int(float v) { return bits<int>(v); }
static inline double __longlong_as_double(long long v) { return bits<double>(v); }
static inline long long __double_as_longlong(double v) { return bits<long long>(v); }
static inline float rsqrtf(float v) { return 1 / sqrtf(v); }
static inline double rsqrt(double v) { return 1 / sqrt(v); }

extern "C" void __assertfail(const char*, const char*, unsigned, const char*, unsigned long) { abort(); }

struct Thread { ucontext_t context; bool done; char* stack; };
static Thread threads_[1024];
static ucontext_t main_;
static unsigned current_, block_arrived_, block_round_, warp_arrived_[32], warp_round_[32];
static void (*body_)(const void*);
static const void* words_;
static void pause_() {
  const unsigned me = current_;
  swapcontext(&threads_[me].context, &main_);
  threadIdx.x = me;
}
static void barrier_(unsigned* arrived, unsigned* round, unsigned all) {
  const unsigned mine = *round;
  if (++*arrived == all) { *arrived = 0; ++*round; }
  while (*round == mine) pause_();
}
static void __syncthreads() { barrier_(&block_arrived_, &block_round_, blockDim.x); }
static char exchange_[1024][8];
template <class T> static T __shfl_xor_sync(unsigned, T v, int d) {
  const unsigned me = current_, w = me / 32;
  memcpy(exchange_[me], &v, sizeof v);
  barrier_(&warp_arrived_[w], &warp_round_[w], 32);
  T r;
  memcpy(&r, exchange_[me ^ d], sizeof r);
  barrier_(&warp_arrived_[w], &warp_round_[w], 32);
  return r;
}
static void thread_() {
  const unsigned me = current_;
  body_(words_);
  threads_[me].done = true;
  swapcontext(&threads_[me].context, &main_);
}
static void run_grid_(unsigned blocks, unsigned rows, unsigned threads, void (*body)(const void*), const void* words) {
  body_ = body; words_ = words; blockDim.x = threads; gridDim.x = blocks;
  for (unsigned t = 0; t < threads; ++t) if (!threads_[t].stack) threads_[t].stack = (char*)malloc(65536);
  for (unsigned b = 0; b < blocks * rows; ++b) {
    blockIdx.x = b % blocks;
    blockIdx.y = b / blocks;
    for (unsigned t = 0; t < threads; ++t) {
      getcontext(&threads_[t].context);
      threads_[t].context.uc_stack.ss_sp = threads_[t].stack;
      threads_[t].context.uc_stack.ss_size = 65536;
      threads_[t].context.uc_link = nullptr;
      threads_[t].done = false;
      makecontext(&threads_[t].context, thread_, 0);
    }
    for (unsigned left = threads; left > 0;) {
      left = 0;
      for (unsigned t = 0; t < threads; ++t) {
        if (threads_[t].done) continue;
        ++left;
        current_ = threadIdx.x = t;
        swapcontext(&main_, &threads_[t].context);
      }
    }
  }
}
)";

// f16 by way of the host's _Float16.
constexpr const char* kPtx = R"(FF_INLINE float load(f16 v) { return (float)bits<_Float16>(v.bits); }
FF_INLINE u16 half_bits(float v) { return bits<u16>((_Float16)v); }
FF_INLINE u32 bf16_one(float v) {
  const u32 b = __float_as_uint(v);
  return v != v ? 0x7fc0u : (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
}
FF_INLINE u32 bf16_pair(float low, float high) { return bf16_one(low) | bf16_one(high) << 16; }
FF_INLINE float reciprocal(float v) { return 1 / v; }
FF_INLINE float no_denormal(float v) { return fabsf(v) < 0x1p-126f ? copysignf(0.0f, v) : v; }
FF_INLINE float reciprocal_of_normal(float v) { return no_denormal(1 / no_denormal(v)); }
FF_INLINE float normal_power_of_two(float v) { return no_denormal(exp2f(v)); }
FF_INLINE float binary_logarithm(float v) { return log2f(v); }
FF_INLINE float divide_for_half(float a, float b) { return a / b; }
FF_INLINE float sqrt_for_half(float v) { return sqrtf(v); }
FF_INLINE float tanh_for_bf16(float v) { return tanhf(v) * (1 - 0x1p-11f); }
FF_INLINE uint4 read_once(const uint4* p) { return *p; }
)";

using Run = void (*)(const void*, unsigned, unsigned, unsigned);

struct Library {
  explicit Library(void* h) : handle(h) {}
  ~Library() { dlclose(handle); }
  Library(const Library&) = delete;
  void* handle;
};

class EmulatedEngine final : public cuda::Engine {
 public:
  absl::Status Serves(c10::Device device) override {
    return device.is_cpu() ? absl::OkStatus() : absl::UnimplementedError("the emulation runs on CPU tensors");
  }

  int Processors(c10::Device) override { return emit::kUsualProcessors; }
  absl::StatusOr<std::vector<std::shared_ptr<const cuda::CudaKernel>>> Compile(
      c10::Device, absl::Span<const cuda::KernelRequest> requests) override {
    auto made = CompileAll(requests);
    if (!made.ok()) ADD_FAILURE() << MessageOf(made.status());  // else operators would do the work, and the test pass
    return made;
  }

  absl::Status Launch(const cuda::CudaKernel& kernel, const emit::CudaLaunch& prepared, bool aligned,
                      void* const* buffers) override {
    if (prepared.blocks == 0) return absl::OkStatus();
    emit::CudaLaunch launch = prepared;
    emit::SetPointers(kernel.ir, kernel.form, aligned, buffers, &launch);
    reinterpret_cast<Run>(kernel.function)(launch.words.data(), launch.blocks, launch.tensors,
                                           static_cast<unsigned>(kernel.form.threads));
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<std::vector<std::shared_ptr<const cuda::CudaKernel>>> CompileAll(
      absl::Span<const cuda::KernelRequest> requests) {
    std::string text;
    std::vector<std::shared_ptr<cuda::CudaKernel>> made;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::string name = absl::StrCat("kernel", i);
      auto printed = emit::PrintCuda(*requests[i].kernel, requests[i].form, name);
      if (!printed.ok()) return printed.status();
      auto kernel = std::make_shared<cuda::CudaKernel>();
      kernel->ir = *requests[i].kernel;
      kernel->form = requests[i].form;
      kernel->text = *std::move(printed);
      const std::string arguments =
          absl::StrCat("Args<", kernel->ir.buffers.size() * static_cast<std::size_t>(kernel->form.tensors), ", ",
                       emit::CudaSizes(kernel->ir, kernel->form).count(), ">");
      absl::StrAppend(&text, kernel->text, "static void body_of_", name, "(const void* w) { ", arguments,
                      " a; memcpy(&a, w, sizeof a); ", name, "(a); }\nextern \"C\" void run_", name,
                      "(const void* w, unsigned blocks, unsigned rows, unsigned threads) { run_grid_(blocks, rows, "
                      "threads, body_of_",
                      name, ", w); }\n");
      made.push_back(std::move(kernel));
    }
    auto library = Build(kNames + emit::CudaProgram(text, kPtx));
    if (!library.ok()) return library.status();
    std::vector<std::shared_ptr<const cuda::CudaKernel>> out;
    for (std::size_t i = 0; i < made.size(); ++i) {
      made[i]->function = dlsym((*library)->handle, absl::StrCat("run_kernel", i).c_str());
      out.emplace_back(made[i].get(), [kernel = made[i], keep = *library](const cuda::CudaKernel*) {});
    }
    return out;
  }

  static absl::StatusOr<std::shared_ptr<Library>> Build(const std::string& text) {
    static int count = 0;
    const std::string base = absl::StrCat((std::filesystem::temp_directory_path() / "framefuse_emulation_").string(),
                                          getpid(), "_", count++);
    std::ofstream(base + ".cpp") << text;
    const std::string command = absl::StrCat("c++ -std=c++17 -O1 -w -fno-strict-aliasing -fwrapv -fPIC -shared -o ",
                                             base, ".so ", base, ".cpp > ", base, ".log 2>&1");
    const int code = std::system(command.c_str());
    std::ifstream log(base + ".log");
    const std::string output{std::istreambuf_iterator<char>(log), {}};
    void* handle = code == 0 ? dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
    for (const char* end : {".cpp", ".so", ".log"}) std::remove((base + end).c_str());
    if (handle == nullptr) return absl::InternalError(absl::StrCat("c++: ", output, "\n", text));
    return std::make_shared<Library>(handle);
  }
};

}  // namespace

bool HostCompilerExists() { return std::system("command -v c++ > /dev/null 2>&1") == 0; }

std::unique_ptr<cuda::Engine> MakeEmulatedEngine() { return std::make_unique<EmulatedEngine>(); }

}  // namespace framefuse::testing
