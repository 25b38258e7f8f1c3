// See program.h. Owner: backends/cuda_runtime.
#include "backends/cuda_runtime/program.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cuda_runtime/cubin.h"
#include "backends/emit/cuda/print_cuda.h"
#include "common/logging.h"
#include "common/status.h"

namespace framefuse::cuda {
namespace {

// Kernels in use, by device and body.
struct Kernels {
  std::mutex mutex;
  std::map<std::pair<int, std::string>, std::weak_ptr<const CudaKernel>> kernels;
};
Kernels& TheKernels() {
  static auto* kernels = new Kernels;
  return *kernels;
}

// A name that equal bodies share, so that equal programs have equal text.
std::string NameOf(const std::string& body) {
  std::uint64_t h = 14695981039346656037ull;
  for (const char c : body) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  char name[32];
  std::snprintf(name, sizeof name, "ff_%016llx", static_cast<unsigned long long>(h));
  return name;
}

using NewKernels = std::map<std::string, std::shared_ptr<CudaKernel>>;  // by body: no order of addresses

// How many programs are made at a time. Where processors are few, twice as many: one program's front end holds a lock
// of NVRTC's, and the others wait.
std::size_t MostPrograms() {
  const unsigned processors = std::max(1u, std::thread::hardware_concurrency());
  return std::max(processors, std::min(2 * processors, 8u));
}

// The new kernels in groups of about equal length of text.
std::vector<std::vector<CudaKernel*>> ShareOut(const NewKernels& made) {
  std::vector<CudaKernel*> kernels;
  for (const auto& [body, kernel] : made) kernels.push_back(kernel.get());
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const CudaKernel* a, const CudaKernel* b) { return a->text.size() > b->text.size(); });
  std::vector<std::vector<CudaKernel*>> programs(std::min(kernels.size(), MostPrograms()));
  std::vector<std::size_t> length(programs.size(), 0);
  for (CudaKernel* kernel : kernels) {
    const auto least = static_cast<std::size_t>(std::min_element(length.begin(), length.end()) - length.begin());
    programs[least].push_back(kernel);
    length[least] += kernel->text.size();
  }
  return programs;
}

// Compiles and loads them.
absl::Status Build(const Device& device, const NewKernels& made) {
  for (const auto& [body, kernel] : made) {
    auto text = emit::PrintCuda(kernel->ir, kernel->form, NameOf(body));
    if (!text.ok()) return text.status();
    kernel->text = *std::move(text);
    kernel->name = NameOf(body);
    FF_LOG(kOutputCode) << kernel->text;
  }
  const std::vector<std::vector<CudaKernel*>> programs = ShareOut(made);
  std::vector<std::string> texts;
  for (const std::vector<CudaKernel*>& kernels : programs) {
    std::string text;
    for (const CudaKernel* kernel : kernels) text += kernel->text;
    texts.push_back(emit::CudaProgram(text));
  }
  auto cubins = CompileCubins(texts, device.architecture);
  if (!cubins.ok()) return cubins.status();
  for (std::size_t p = 0; p < programs.size(); ++p) {
    auto module = LoadedModule::Load(device, (*cubins)[p]);
    if (!module.ok()) return module.status();
    for (CudaKernel* kernel : programs[p]) {
      auto function = (*module)->Get(kernel->name);
      if (!function.ok()) return function.status();
      kernel->function = *function;
      kernel->module = *module;
    }
  }
  return absl::OkStatus();
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

absl::StatusOr<std::vector<std::shared_ptr<const CudaKernel>>> CompileKernels(
    int device, absl::Span<const KernelRequest> requests) {
  absl::StatusOr<const Device*> on = GetDevice(device);
  if (!on.ok()) return on.status();
  std::vector<std::string> bodies;
  std::vector<std::shared_ptr<const CudaKernel>> found(requests.size());
  NewKernels made;
  Kernels& all = TheKernels();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto body = emit::PrintCuda(*requests[i].kernel, requests[i].form, "NAME");
    if (!body.ok()) return body.status();
    bodies.push_back(*std::move(body));
    const std::lock_guard lock(all.mutex);
    if (auto it = all.kernels.find({device, bodies[i]}); it != all.kernels.end()) found[i] = it->second.lock();
    if (found[i] == nullptr && !made.contains(bodies[i])) {
      auto kernel = std::make_shared<CudaKernel>();
      kernel->ir = *requests[i].kernel;
      kernel->form = requests[i].form;
      kernel->device = *on;
      made.emplace(bodies[i], std::move(kernel));
    }
  }
  if (absl::Status status = Build(**on, made); !status.ok()) return status;
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.kernels, [](const auto& entry) { return entry.second.expired(); });
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (found[i] == nullptr) found[i] = made.at(bodies[i]);
    all.kernels[{device, bodies[i]}] = found[i];
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
