#include "backends/cuda_runtime/program.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cuda_runtime/cubin.h"
#include "backends/cuda_runtime/linker.h"
#include "backends/emit/cuda/kernel_name.h"
#include "backends/emit/cuda/print_cuda.h"
#include "backends/emit/ptx/print_ptx.h"
#include "common/config.h"
#include "common/logging.h"
#include "common/status.h"

namespace framefuse::cuda {
namespace {

// Kernels in use, by device, by whether PTX was wanted, and by body.
struct Kernels {
  std::mutex mutex;
  std::map<std::tuple<int, bool, std::string>, std::weak_ptr<const CudaKernel>> kernels;
};
Kernels& TheKernels() {
  static auto* kernels = new Kernels;
  return *kernels;
}

using NewKernels = std::map<std::string, std::shared_ptr<CudaKernel>>;  // by body: no order of addresses

struct Job {
  std::vector<CudaKernel*> kernels;
  CubinSource source;
};

// Kernels in programs of about equal length of text.
std::vector<Job> NvrtcJobs(std::vector<CudaKernel*> kernels) {
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const CudaKernel* a, const CudaKernel* b) { return a->text.size() > b->text.size(); });
  std::vector<Job> jobs(std::min(kernels.size(), MostCubinsAtATime()));
  for (CudaKernel* kernel : kernels) {
    const auto least = std::min_element(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
      return a.source.text.size() < b.source.text.size();
    });
    least->kernels.push_back(kernel);
    least->source.text += kernel->text;
  }
  for (Job& job : jobs) job.source.text = emit::CudaProgram(job.source.text);
  return jobs;
}

// Whether PTX is wanted and there is who assembles it.
absl::Status PtxServes(bool wanted, int architecture) {
  if (!wanted) return absl::CancelledError("PTX is off");
  if (architecture < emit::kLeastPtxArchitecture) return absl::UnimplementedError("PTX is for later processors");
  return GetLinker().status();
}

// A kernel of PTX is a program of its own: nothing is shared, and it is found in the cache whatever is compiled beside.
std::vector<Job> Jobs(const NewKernels& made, int architecture, bool ptx) {
  const absl::Status linker = PtxServes(ptx, architecture);
  if (!linker.ok() && !absl::IsCancelled(linker)) FF_LOG(kPerf) << "all by NVRTC: " << MessageOf(linker);
  std::vector<CudaKernel*> others;
  std::vector<Job> assembled;
  for (const auto& [body, kernel] : made) {
    if (linker.ok()) {
      auto text = emit::PrintPtx(kernel->ir, kernel->form, kernel->name);
      if (text.ok()) {
        assembled.push_back({{kernel.get()}, {emit::PtxModule(*text, architecture), true}});
        continue;
      }
      FF_LOG(kPerf) << "by NVRTC: " << kernel->ir.name << ": " << MessageOf(text.status());
    }
    others.push_back(kernel.get());
  }
  std::vector<Job> jobs = NvrtcJobs(std::move(others));  // they take longer
  std::move(assembled.begin(), assembled.end(), std::back_inserter(jobs));
  return jobs;
}

absl::Status LoadKernels(const Device& device, const Job& job, const absl::StatusOr<std::string>& cubin) {
  if (!cubin.ok()) return cubin.status();
  auto module = LoadedModule::Load(device, *cubin);
  if (!module.ok()) return module.status();
  for (CudaKernel* kernel : job.kernels) {
    auto function = (*module)->Get(kernel->name);
    if (!function.ok()) return function.status();
    kernel->function = *function;
    kernel->module = *module;
  }
  return absl::OkStatus();
}

// Returns kernels whose PTX is refused.
absl::StatusOr<std::vector<CudaKernel*>> RunJobs(const Device& device, const std::vector<Job>& jobs) {
  std::vector<CubinSource> sources;
  sources.reserve(jobs.size());
  for (const Job& job : jobs) sources.push_back(job.source);
  const auto cubins = CompileCubins(sources, device.architecture);
  std::vector<CudaKernel*> refused;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const absl::Status status = LoadKernels(device, jobs[j], cubins[j]);
    if (status.ok()) continue;
    if (!jobs[j].source.ptx) return status;
    FF_LOG(kPerf) << "by NVRTC: " << jobs[j].kernels[0]->ir.name << ": its PTX was refused: " << MessageOf(status);
    FF_LOG(kOutputCode) << jobs[j].source.text;
    refused.push_back(jobs[j].kernels[0]);
  }
  return refused;
}

// Compiles and loads them.
absl::Status Build(const Device& device, const NewKernels& made, bool ptx) {
  for (const auto& [body, kernel] : made) {
    kernel->name = emit::KernelName(kernel->ir, body);
    auto text = emit::PrintCuda(kernel->ir, kernel->form, kernel->name);
    if (!text.ok()) return text.status();
    kernel->text = *std::move(text);
    FF_LOG(kOutputCode) << kernel->text;
  }
  auto refused = RunJobs(device, Jobs(made, device.architecture, ptx));
  if (refused.ok() && !refused->empty()) refused = RunJobs(device, NvrtcJobs(*std::move(refused)));
  return refused.status();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const LoadedModule>> LoadedModule::Load(const Device& device, const std::string& cubin) {
  const Driver& d = **GetDriver();
  const ContextGuard guard(device);
  auto loaded = std::make_shared<LoadedModule>();
  loaded->device_ = &device;
  FF_RETURN_IF_ERROR(d.Check(d.ModuleLoadData(&loaded->module_, cubin.data()), "cuModuleLoadData"));
  return loaded;
}

LoadedModule::~LoadedModule() {
  if (module_ == nullptr) return;
  const ContextGuard guard(*device_);
  (*GetDriver())->ModuleUnload(module_);
}

absl::StatusOr<Function> LoadedModule::Get(const std::string& name) const {
  const Driver& d = **GetDriver();
  const ContextGuard guard(*device_);
  Function function = nullptr;
  FF_RETURN_IF_ERROR(d.Check(d.ModuleGetFunction(&function, module_, name.c_str()), "cuModuleGetFunction"));
  return function;
}

absl::Status CanCompile(int device) {
  absl::StatusOr<const Device*> on = GetDevice(device);
  if (!on.ok()) return on.status();
  return PtxServes(config().cuda_ptx.get(), (*on)->architecture).ok() ? absl::OkStatus() : GetNvrtc().status();
}

absl::StatusOr<std::vector<std::shared_ptr<const CudaKernel>>> CompileKernels(
    int device, absl::Span<const KernelRequest> requests) {
  absl::StatusOr<const Device*> on = GetDevice(device);
  if (!on.ok()) return on.status();
  std::vector<std::string> bodies;
  std::vector<std::shared_ptr<const CudaKernel>> found(requests.size());
  NewKernels made;
  Kernels& all = TheKernels();
  const bool ptx = config().cuda_ptx.get();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto body = emit::PrintCuda(*requests[i].kernel, requests[i].form, "NAME");
    if (!body.ok()) return body.status();
    bodies.push_back(*std::move(body));
    const std::lock_guard lock(all.mutex);
    if (auto it = all.kernels.find({device, ptx, bodies[i]}); it != all.kernels.end()) found[i] = it->second.lock();
    if (found[i] == nullptr && !made.contains(bodies[i])) {
      auto kernel = std::make_shared<CudaKernel>();
      kernel->ir = *requests[i].kernel;
      kernel->form = requests[i].form;
      kernel->device = *on;
      made.emplace(bodies[i], std::move(kernel));
    }
  }
  if (absl::Status status = Build(**on, made, ptx); !status.ok()) return status;
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.kernels, [](const auto& entry) { return entry.second.expired(); });
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (found[i] == nullptr) found[i] = made.at(bodies[i]);
    all.kernels[{device, ptx, bodies[i]}] = found[i];
  }
  return found;
}

absl::Status LaunchOn(const CudaKernel& kernel, const emit::CudaLaunch& prepared, bool aligned, void* const* buffers) {
  if (prepared.blocks == 0) return absl::OkStatus();
  absl::StatusOr<Stream> stream = CurrentStream(kernel.device->index);
  if (!stream.ok()) return stream.status();
  emit::CudaLaunch launch = prepared;
  emit::SetPointers(kernel.ir, kernel.form, aligned, buffers, &launch);
  void* arguments[] = {launch.words.data()};
  const ContextGuard guard(*kernel.device);
  const Driver& d = **GetDriver();
  return d.Check(d.LaunchKernel(kernel.function, launch.blocks, launch.tensors, 1,
                                static_cast<unsigned>(kernel.form.threads), 1, 1, 0, *stream, arguments, nullptr),
                 "cuLaunchKernel");
}

}  // namespace framefuse::cuda
