// See program.h. Owner: backends/cuda_runtime.
#include "backends/cuda_runtime/program.h"

#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/cuda_runtime/cubin_cache.h"
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

std::string LogOf(const Nvrtc& n, Nvrtc::Program program) {
  std::size_t size = 0;
  if (n.GetProgramLogSize(program, &size) != 0 || size == 0) return "";
  std::string log(size, '\0');
  n.GetProgramLog(program, log.data());
  log.resize(log.find('\0') == std::string::npos ? log.size() : log.find('\0'));
  return log;
}

std::vector<std::string> OptionsFor(const Nvrtc& n, int architecture) {
  std::vector<std::string> options = {absl::StrCat("--gpu-architecture=sm_", architecture), "--std=c++17"};
  if (n.major * 100 + n.minor >= 1204) options.push_back("--minimal");
  // The same number of instructions, in less time.
  if (n.major >= 13) options.push_back("--Ofast-compile=min");
  return options;
}

absl::StatusOr<std::string> RunNvrtc(const Nvrtc& n, const std::string& text, const std::vector<std::string>& given) {
  Nvrtc::Program program = nullptr;
  if (Result r = n.CreateProgram(&program, text.c_str(), "framefuse.cu", 0, nullptr, nullptr); r != 0) {
    return absl::InternalError(absl::StrCat("nvrtcCreateProgram: ", n.GetErrorString(r)));
  }
  std::vector<const char*> options;
  for (const std::string& option : given) options.push_back(option.c_str());
  absl::StatusOr<std::string> result = std::string();
  std::size_t size = 0;
  if (Result r = n.CompileProgram(program, static_cast<int>(options.size()), options.data()); r != 0) {
    result = absl::InternalError(absl::StrCat("NVRTC: ", n.GetErrorString(r), "\n", LogOf(n, program)));
  } else if (n.GetCubinSize(program, &size) != 0 || size == 0) {
    result = absl::InternalError("NVRTC made no cubin");
  } else {
    result->resize(size);
    if (n.GetCubin(program, result->data()) != 0) result = absl::InternalError("NVRTC lost the cubin");
  }
  n.DestroyProgram(&program);
  return result;
}

}  // namespace

absl::StatusOr<std::string> CompileCubin(const std::string& text, int architecture) {
  absl::StatusOr<const Nvrtc*> n = GetNvrtc();
  if (!n.ok()) return n.status();
  const std::vector<std::string> options = OptionsFor(**n, architecture);
  const std::string key =
      absl::StrCat("nvrtc ", (*n)->major, ".", (*n)->minor, " ", absl::StrJoin(options, " "), "\n", text);
  const CubinCache cache;
  if (std::optional<std::string> found = cache.Find(key)) {
    FF_LOG(kCache) << "hit: " << cache.PathOf(key);
    return *std::move(found);
  }
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<std::string> cubin = RunNvrtc(**n, text, options);
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  FF_LOG(kPerf) << "NVRTC: " << text.size() << " bytes of text in " << spent.count() << " ms";
  if (cubin.ok()) cache.Store(key, *cubin);
  return cubin;
}

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
  std::map<std::string, std::shared_ptr<CudaKernel>> made;  // in an order that does not depend on addresses
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
  if (!made.empty()) {
    std::string text;
    for (auto& [body, kernel] : made) {
      auto own = emit::PrintCuda(kernel->ir, kernel->form, NameOf(body));
      if (!own.ok()) return own.status();
      kernel->text = *std::move(own);
      FF_LOG(kOutputCode) << kernel->text;
      text += kernel->text;
    }
    auto cubin = CompileCubin(emit::CudaProgram(text), (*on)->architecture);
    if (!cubin.ok()) return cubin.status();
    auto module = LoadedModule::Load(**on, *cubin);
    if (!module.ok()) return module.status();
    for (auto& [body, kernel] : made) {
      auto function = (*module)->Get(NameOf(body));
      if (!function.ok()) return function.status();
      kernel->function = *function;
      kernel->module = *module;
    }
  }
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
