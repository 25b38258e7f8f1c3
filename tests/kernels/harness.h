// Runs a kernel as machine code and through the interpreter on the same random buffers and compares.
// Guard bytes around every buffer catch writes out of bounds.
#ifndef FRAMEFUSE_TESTS_KERNELS_HARNESS_H_
#define FRAMEFUSE_TESTS_KERNELS_HARNESS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "backends/cpu_runtime/launch.h"
#include "backends/kernel_ir/evaluate.h"
#include "tests/kernels/ptx_emulation.h"

namespace framefuse::testing {

using cpu::BufferStrides;
using cpu::CpuKernel;
using cpu::Launch;
using cpu::LaunchShape;
using kernel_ir::BlockKind;
using kernel_ir::Buffer;
using kernel_ir::Builder;
using kernel_ir::DType;
using kernel_ir::Inner;
using kernel_ir::Kernel;
using kernel_ir::Op;
using kernel_ir::Skeleton;
using kernel_ir::Type;
using kernel_ir::ValueId;

inline constexpr std::size_t kGuard = 64;

// Memory of one buffer: random content of its type, with guards.
class TestBuffer {
 public:
  TestBuffer(DType dtype, std::int64_t elements, std::mt19937* random, bool special = true) : dtype_(dtype) {
    const int size = kernel_ir::ElementSize(dtype);
    bytes_.assign(static_cast<std::size_t>(elements * size) + 2 * kGuard, static_cast<char>(0xa5));
    std::normal_distribution<double> normal(0, 2);
    for (std::int64_t i = 0; i < elements; ++i) Write(i, Draw(random, normal(*random), special));
  }

  char* data() { return bytes_.data() + kGuard; }
  std::int64_t elements() const {
    return static_cast<std::int64_t>(bytes_.size() - 2 * kGuard) / kernel_ir::ElementSize(dtype_);
  }
  bool GuardsIntact() const {
    for (std::size_t i = 0; i < kGuard; ++i) {
      if (bytes_[i] != static_cast<char>(0xa5) || bytes_[bytes_.size() - 1 - i] != static_cast<char>(0xa5))
        return false;
    }
    return true;
  }
  double At(std::int64_t i) {
    union {
      double f64;
      float f32;
      std::int64_t i64;
      std::int32_t i32;
    } lane{};
    kernel_ir::LoadLanes(dtype_, data() + i * kernel_ir::ElementSize(dtype_), 0, &lane, 1);
    switch (kernel_ir::ComputeType(dtype_)) {
      case Type::kF32:
        return static_cast<double>(lane.f32);
      case Type::kF64:
        return lane.f64;
      case Type::kI64:
        return static_cast<double>(lane.i64);
      default:
        return lane.i32;
    }
  }
  void Write(std::int64_t i, double value) {
    char* p = data() + i * kernel_ir::ElementSize(dtype_);
    union {
      double f64;
      float f32;
      std::int64_t i64;
      std::int32_t i32;
    } lane{};
    switch (kernel_ir::ComputeType(dtype_)) {
      case Type::kF32:
        lane.f32 = static_cast<float>(value);
        break;
      case Type::kF64:
        lane.f64 = value;
        break;
      case Type::kI64:
        lane.i64 = static_cast<std::int64_t>(value);
        break;
      case Type::kPred:
        lane.i32 = value > 0 ? -1 : 0;
        break;
      default:
        lane.i32 = static_cast<std::int32_t>(value);
    }
    kernel_ir::StoreLanes(dtype_, p, 0, &lane, 1);
  }
  DType dtype() const { return dtype_; }

 private:
  double Draw(std::mt19937* random, double normal, bool special) {
    if (!kernel_ir::IsFloat(kernel_ir::ComputeType(dtype_))) return std::floor(normal * 20);
    if (!special || (*random)() % 8 != 0) return normal;
    const double values[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-40, -1e-40, 1, -1, 3e38, 100, -100, 0.5, -2.5};
    return values[(*random)() % std::size(values)];
  }
  DType dtype_;
  std::vector<char> bytes_;
};

inline bool Close(double a, double b, double tolerance, double least = 1e-44) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return true;
  return std::fabs(a - b) <= tolerance * (std::fabs(a) + std::fabs(b)) + least;
}

inline double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 6e-4;
    case DType::kBF16:
      return 5e-3;
    case DType::kF32:
      return 4e-7;
    case DType::kF64:
      return 1e-15;
    default:
      return 0;
  }
}

inline void ExpectSameBuffers(const Kernel& kernel, std::vector<TestBuffer>* first, std::vector<TestBuffer>* second,
                              unsigned seed, double scale, double least = 1e-44) {
  for (std::size_t k = 0; k < first->size(); ++k) {
    EXPECT_TRUE((*first)[k].GuardsIntact()) << "buffer " << k << " seed " << seed << "\n" << Print(kernel);
    for (std::int64_t i = 0; i < (*first)[k].elements(); ++i) {
      ASSERT_TRUE(Close((*first)[k].At(i), (*second)[k].At(i), ToleranceOf(kernel.buffers[k].dtype) * scale, least))
          << "buffer " << k << "[" << i << "] " << (*first)[k].At(i) << " for " << (*second)[k].At(i) << " seed "
          << seed << "\n"
          << Print(kernel);
    }
  }
}

// Runs both engines; `sizes[b]` elements of buffer b. Compares written buffers.
inline void ExpectSameWith(cpu::Engine engine, const Kernel& kernel, const LaunchShape& shape,
                           const std::vector<std::int64_t>& sizes, unsigned seed, double scale, bool special) {
  auto machine = CpuKernel::Get(kernel, engine);
  auto interpreted = CpuKernel::Get(kernel, cpu::Engine::kInterpreter);
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  ASSERT_TRUE(interpreted.ok());
  if (emit::HostSupportsX86Emitter()) {
    ASSERT_TRUE((*machine)->is_machine_code()) << (*machine)->reason();
  }
  std::mt19937 random(seed);
  std::vector<TestBuffer> first;
  for (std::size_t b = 0; b < sizes.size(); ++b)
    first.emplace_back(kernel.buffers[b].dtype, sizes[b], &random, special);
  std::vector<TestBuffer> second = first;
  std::vector<void*> a, b;
  for (TestBuffer& buffer : first) a.push_back(buffer.data());
  for (TestBuffer& buffer : second) b.push_back(buffer.data());
  Launch(*machine, shape).Run(a.data());
  Launch(*interpreted, shape).Run(b.data());
  ExpectSameBuffers(kernel, &first, &second, seed, scale);
}

inline bool HasInst(const Kernel& kernel, const std::function<bool(const kernel_ir::Inst&)>& is) {
  return std::any_of(kernel.insts.begin(), kernel.insts.end(), is);
}

// The form for these sizes, and those that other sizes would be given where they may change.
inline std::vector<emit::CudaForm> FormsFor(const Kernel& kernel, const LaunchShape& shape) {
  std::vector<emit::CudaForm> forms = {emit::ChooseForm(kernel, shape, true)};
  for (const std::int64_t inner : {shape.inner, std::int64_t{3}, std::int64_t{1000}, std::int64_t{65536}}) {
    LaunchShape hint = shape;
    hint.inner = inner;
    forms.push_back(emit::ChooseForm(kernel, hint, false));
    if (std::find(forms.begin(), forms.end() - 1, forms.back()) != forms.end() - 1) forms.pop_back();
  }
  return forms;
}

// As PTX, emulated. `shift`: elements that all buffers lie past an aligned address.
inline void ExpectSameInPtx(const Kernel& kernel, const LaunchShape& shape, const std::vector<std::int64_t>& sizes,
                            unsigned seed, double scale, bool special, std::int64_t shift) {
  auto interpreted = CpuKernel::Get(kernel, cpu::Engine::kInterpreter);
  ASSERT_TRUE(interpreted.ok());
  // A device's conversions of what is out of range saturate, an index outside of the row ends its program, and its f32
  // sigmoid is 0 where it would be denormal.
  const bool saturates = HasInst(kernel, [&](const kernel_ir::Inst& inst) {
    return inst.op == Op::kCast && kernel_ir::IsInt(inst.type) && kernel_ir::IsFloat(kernel[inst.args[0]].type);
  });
  const bool flushes = HasInst(kernel, [](const kernel_ir::Inst& inst) { return inst.op == Op::kSigmoid; });
  if (HasInst(kernel, [](const kernel_ir::Inst& inst) { return inst.op == Op::kLoadAt; })) return;
  // A sum's error is of its terms, which another order adds up.
  const bool sums = HasInst(kernel, [](const kernel_ir::Inst& inst) { return inst.op == Op::kReduceSum; });
  const double least = flushes ? 1e-35 : sums ? ToleranceOf(kernel.buffers.back().dtype) * scale : 1e-44;
  std::mt19937 random(seed);
  std::vector<TestBuffer> second;
  for (std::size_t b = 0; b < sizes.size(); ++b) {
    second.emplace_back(kernel.buffers[b].dtype, sizes[b] + shift, &random, special && !saturates && !flushes);
  }
  const std::vector<TestBuffer> given = second;
  const auto pointers = [&](std::vector<TestBuffer>& buffers) {
    std::vector<void*> out;
    for (TestBuffer& buffer : buffers) out.push_back(buffer.data() + shift * kernel_ir::ElementSize(buffer.dtype()));
    return out;
  };
  Launch(*interpreted, shape).Run(pointers(second).data());
  for (const emit::CudaForm& form : FormsFor(kernel, shape)) {
    std::vector<TestBuffer> first = given;
    const absl::Status ran = RunAsPtx(kernel, form, shape, pointers(first).data(), sizes);
    if (absl::IsUnimplemented(ran)) return;
    ASSERT_TRUE(ran.ok()) << ran.message() << "\n" << Print(kernel);
    ExpectSameBuffers(kernel, &first, &second, seed, scale, least);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// With each width of vectors that the processor has, and as PTX. Code of 512 bits is at least made everywhere.
inline void ExpectSame(const Kernel& kernel, const LaunchShape& shape, const std::vector<std::int64_t>& sizes,
                       unsigned seed, double scale = 1, bool special = true) {
  for (const std::int64_t shift : {0, 1}) {
    SCOPED_TRACE("PTX, shifted by " + std::to_string(shift));
    ExpectSameInPtx(kernel, shape, sizes, seed, scale, special, shift);
    if (::testing::Test::HasFatalFailure()) return;
  }
  ExpectSameWith(cpu::Engine::kAvx2, kernel, shape, sizes, seed, scale, special);
  if (::testing::Test::HasFatalFailure()) return;
  if (emit::HostHasAvx512()) return ExpectSameWith(cpu::Engine::kAvx512, kernel, shape, sizes, seed, scale, special);
  if (!emit::HostSupportsX86Emitter()) return;
  const auto code = emit::CompileX86(kernel, emit::VectorBits::k512);
  ASSERT_TRUE(code.ok()) << code.status().message() << "\n" << Print(kernel);
}

// Shape of a flat kernel of n points.
inline LaunchShape Flat(const Kernel& kernel, std::int64_t n) {
  LaunchShape shape;
  shape.inner = n;
  for (const Buffer& buffer : kernel.buffers) shape.buffers.push_back({{}, 0, kernel_ir::ElementSize(buffer.dtype)});
  return shape;
}

}  // namespace framefuse::testing

#endif  // FRAMEFUSE_TESTS_KERNELS_HARNESS_H_
