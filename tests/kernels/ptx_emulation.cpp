#include "tests/kernels/ptx_emulation.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cuda_runtime/linker.h"
#include "backends/emit/ptx/print_ptx.h"
#include "common/status.h"
#include "tests/kernels/cuda_emulation.h"
#include "tests/kernels/ptx_program.h"

namespace framefuse::testing {
namespace {

constexpr int kArchitecture = 90;

// What is not printed in PTX so far are functions; these are.
bool MayBeRefused(std::string_view why) {
  constexpr std::string_view kFunction = "no PTX for the function ";
  if (!why.starts_with(kFunction)) return false;
  for (const char* printed : {"exp.f32", "expm1.f32", "log.f32", "log1p.f32", "tanh.f32", "erf.f32", "sigmoid.f32"}) {
    if (why.substr(kFunction.size()) == printed) return false;
  }
  return true;
}

class PtxEngine final : public cuda::Engine {
 public:
  explicit PtxEngine(int* printed) : printed_(printed) {}

  absl::Status Serves(c10::Device device) override { return text_->Serves(device); }

  int Processors(c10::Device) override { return emit::kUsualProcessors; }
  absl::StatusOr<std::vector<std::shared_ptr<const cuda::CudaKernel>>> Compile(
      c10::Device device, absl::Span<const cuda::KernelRequest> requests) override {
    auto made = CompileAll(device, requests);
    if (!made.ok()) ADD_FAILURE() << MessageOf(made.status());  // else operators would do the work, and the test pass
    return made;
  }

  absl::Status Launch(const cuda::CudaKernel& kernel, const emit::CudaLaunch& prepared, bool aligned,
                      void* const* buffers) override {
    const auto program = programs_.find(&kernel);
    if (program == programs_.end()) return text_->Launch(kernel, prepared, aligned, buffers);
    if (prepared.blocks == 0) return absl::OkStatus();
    emit::CudaLaunch launch = prepared;
    emit::SetPointers(kernel.ir, kernel.form, aligned, buffers, &launch);
    absl::Status status = ptx::Run(program->second->entries.front(), launch.words, launch.blocks, launch.tensors,
                                   static_cast<unsigned>(kernel.form.threads));
    if (!status.ok()) ADD_FAILURE() << MessageOf(status) << "\n" << kernel.text;
    return status;
  }

 private:
  absl::StatusOr<std::vector<std::shared_ptr<const cuda::CudaKernel>>> CompileAll(
      c10::Device device, absl::Span<const cuda::KernelRequest> requests) {
    std::vector<std::shared_ptr<const cuda::CudaKernel>> out(requests.size());
    std::vector<cuda::KernelRequest> refused;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      auto printed = emit::PrintPtx(*requests[i].kernel, requests[i].form, "kernel");
      if (absl::IsUnimplemented(printed.status())) {
        EXPECT_TRUE(MayBeRefused(MessageOf(printed.status()))) << printed.status();
        refused.push_back(requests[i]);
        places.push_back(i);
        continue;
      }
      if (!printed.ok()) return printed.status();
      auto made = Made(requests[i], *printed);
      if (!made.ok()) return made.status();
      out[i] = *std::move(made);
    }
    if (refused.empty()) return out;
    auto others = text_->Compile(device, refused);
    if (!others.ok()) return others.status();
    for (std::size_t i = 0; i < places.size(); ++i) out[places[i]] = (*others)[i];
    return out;
  }

  absl::StatusOr<std::shared_ptr<const cuda::CudaKernel>> Made(const cuda::KernelRequest& request,
                                                               const std::string& text) {
    auto kernel = std::make_shared<cuda::CudaKernel>();
    kernel->ir = *request.kernel;
    kernel->form = request.form;
    kernel->text = emit::PtxModule(text, kArchitecture);
    auto program = ptx::Parse(kernel->text);
    if (!program.ok()) return absl::InternalError(absl::StrCat(MessageOf(program.status()), "\n", kernel->text));
    if ((*program)->entries.size() != 1) return absl::InternalError("PTX without its kernel\n" + kernel->text);
    // Where there is an assembler it has to take the text, too.
    if (auto linker = cuda::GetLinker(); linker.ok()) {
      const auto cubin = cuda::Assemble(**linker, kernel->text, cuda::LinkerOptions(**linker, kArchitecture));
      EXPECT_TRUE(cubin.ok()) << MessageOf(cubin.status()) << "\n" << kernel->text;
    }
    programs_[kernel.get()] = *program;
    kept_.push_back(kernel);
    ++*printed_;
    return kernel;
  }

  int* const printed_;
  const std::unique_ptr<cuda::Engine> text_ = MakeEmulatedEngine();
  std::map<const cuda::CudaKernel*, std::shared_ptr<const ptx::Program>> programs_;
  std::vector<std::shared_ptr<const cuda::CudaKernel>> kept_;  // their addresses are the keys
};

}  // namespace

absl::Status RunAsPtx(const kernel_ir::Kernel& kernel, const emit::CudaForm& form, const kernel_ir::LaunchShape& shape,
                      void* const* buffers, const std::vector<std::int64_t>& elements) {
  const bool aligned = emit::IsAligned(kernel, form, shape, buffers);
  const emit::CudaForm runs = form.exact && !aligned ? emit::PlainForm(kernel, form) : form;
  auto printed = emit::PrintPtx(kernel, runs, "kernel");
  if (!printed.ok()) return printed.status();
  auto program = ptx::Parse(emit::PtxModule(*printed, kArchitecture));
  if (!program.ok()) return program.status();
  emit::CudaLaunch launch = emit::MakeCudaLaunch(kernel, form, shape);
  if (launch.blocks == 0) return absl::OkStatus();
  emit::SetPointers(kernel, runs, aligned, buffers, &launch);
  ptx::Ranges memory;
  for (std::size_t b = 0; b < elements.size(); ++b) {
    const auto begin = reinterpret_cast<std::uintptr_t>(buffers[b]);
    const auto size = static_cast<std::uint64_t>(kernel_ir::ElementSize(kernel.buffers[b].dtype));
    memory.emplace_back(begin, begin + static_cast<std::uint64_t>(elements[b]) * size);
  }
  for (const auto& constant : (*program)->constants) {
    const auto begin = reinterpret_cast<std::uintptr_t>(constant->data());
    memory.emplace_back(begin, begin + constant->size());
  }
  absl::Status status = ptx::Run((*program)->entries.front(), launch.words, launch.blocks, launch.tensors,
                                 static_cast<unsigned>(runs.threads), memory);
  if (!status.ok()) return absl::InternalError(absl::StrCat(MessageOf(status), "\n", *printed));
  return status;
}

std::unique_ptr<cuda::Engine> MakePtxEngine(int* printed) { return std::make_unique<PtxEngine>(printed); }

}  // namespace framefuse::testing
