#include "guards/leaf/torch_settings.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <array>
#include <concepts>
#include <sstream>

namespace framefuse {
namespace {

struct Field {
  std::string_view name;
  unsigned bits;
};

// In the order in which ReadTorchSettings packs them.
constexpr std::array<Field, 19> kFields = {{
    {"read", 1},
    {"float32 precision of matrix products", 3},
    {"tf32 in cudnn", 2},
    {"tf32 in mkldnn", 2},
    {"reduced sums of float16 in cublas", 2},
    {"reduced sums of bfloat16 in cublas", 2},
    {"nnpack", 1},
    {"anomalies are looked for in values", 1},
    {"depthwise kernels of cudnn", 2},
    {"float32 precision", 3},
    {"float32 precision on cuda", 3},
    {"float32 precision of products on cuda", 3},
    {"float32 precision of convolutions on cuda", 3},
    {"float32 precision of recurrent layers on cuda", 3},
    {"float32 precision in mkldnn", 3},
    {"float32 precision of products in mkldnn", 3},
    {"float32 precision of convolutions in mkldnn", 3},
    {"float32 precision of recurrent layers in mkldnn", 3},
    {"number of threads", 16},
}};

constexpr unsigned Total() {
  unsigned total = 0;
  for (const Field& f : kFields) total += f.bits;
  return total;
}
static_assert(Total() <= 64);

class Packed {
 public:
  template <class Value>
  void Add(Value value) {
    const Field& field = kFields[next_++];
    bits_ |= (static_cast<std::uint64_t>(value) & ((std::uint64_t{1} << field.bits) - 1)) << at_;
    at_ += field.bits;
  }
  // Torch raises where the old way and the new way of setting it contradict each other: all bits, then.
  template <std::invocable Question>
  void Ask(Question ask) {
    try {
      Add(ask());
    } catch (...) {
      Add(~std::uint64_t{0});
    }
  }
  std::uint64_t bits() const { return bits_; }

 private:
  std::uint64_t bits_ = 0;
  unsigned at_ = 0;
  std::size_t next_ = 0;
};

// torch 2.11 knows none.
template <class Context>
int DepthwiseKernel(const Context& context) {
  if constexpr (requires { context.cudnnDepthwiseKernel(); }) return static_cast<int>(context.cudnnDepthwiseKernel());
  return 0;
}

std::string Difference(std::string_view name, std::uint64_t expected, std::uint64_t actual) {
  std::ostringstream text;
  text << kTorchSettings << ": " << name << ": expected " << expected << ", actual " << actual;
  return text.str();
}

}  // namespace

std::uint64_t ReadTorchSettings() noexcept {
  const at::Context& context = at::globalContext();
  Packed p;
  p.Add(1);
  p.Ask([&] { return static_cast<int>(context.float32MatmulPrecision()); });
  p.Ask([&] { return static_cast<int>(context.allowTF32CuDNN()); });
  p.Ask([&] { return static_cast<int>(context.allowTF32OneDNN()); });
  p.Ask([&] { return static_cast<int>(context.allowFP16ReductionCuBLAS()); });
  p.Ask([&] { return static_cast<int>(context.allowBF16ReductionCuBLAS()); });
  p.Add(context.userEnabledNNPACK() ? 1 : 0);
  p.Add(torch::autograd::AnomalyMode::should_check_nan() ? 1 : 0);
  p.Add(DepthwiseKernel(context));
  const auto precision = [&](at::Float32Backend backend, at::Float32Op op) {
    p.Ask([&] { return static_cast<int>(context.float32Precision(backend, op)); });
  };
  precision(at::Float32Backend::GENERIC, at::Float32Op::ALL);
  for (const at::Float32Backend backend : {at::Float32Backend::CUDA, at::Float32Backend::MKLDNN}) {
    precision(backend, at::Float32Op::ALL);
    precision(backend, at::Float32Op::MATMUL);
    precision(backend, at::Float32Op::CONV);
    precision(backend, at::Float32Op::RNN);
  }
  p.Add(at::get_num_threads());
  return p.bits();
}

std::string ExplainTorchSettings(std::uint64_t expected, std::uint64_t actual) {
  unsigned at = 0;
  for (const Field& field : kFields) {
    const std::uint64_t mask = (std::uint64_t{1} << field.bits) - 1;
    const std::uint64_t want = expected >> at & mask, got = actual >> at & mask;
    at += field.bits;
    if (want != got) return Difference(field.name, want, got);
  }
  return "";
}

}  // namespace framefuse
