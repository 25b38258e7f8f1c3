#include "backends/cpu_runtime/kernel.h"

#include <time.h>

#include <cstdlib>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "backends/kernel_ir/interpret.h"
#include "common/logging.h"

namespace framefuse::cpu {
namespace {

// Kernels in use, by the text of their body.
struct Cache {
  std::mutex mutex;
  std::unordered_map<std::string, std::weak_ptr<const CpuKernel>> kernels;
};

// Processor time: what others run meanwhile does not count.
double ThreadMilliseconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

Cache& TheCache() {
  static Cache* cache = new Cache;
  return *cache;
}

}  // namespace

Engine DefaultVectors() {
  static const bool wide = [] {
    const char* bits = std::getenv("FRAMEFUSE_CPU_VECTOR_BITS");
    return emit::HostHasAvx512() && (bits == nullptr || std::string_view(bits) != "256");
  }();
  return wide ? Engine::kAvx512 : Engine::kAvx2;
}

absl::StatusOr<std::shared_ptr<const CpuKernel>> CpuKernel::Get(const kernel_ir::Kernel& kernel, Engine engine,
                                                                std::string_view what) {
  if (absl::Status status = kernel_ir::Verify(kernel); !status.ok()) return status;
  Cache& cache = TheCache();
  if (engine == Engine::kBest) engine = DefaultVectors();
  const std::string key = std::to_string(static_cast<int>(engine)) + kernel_ir::Print(kernel);
  {
    const std::lock_guard lock(cache.mutex);
    if (auto it = cache.kernels.find(key); it != cache.kernels.end()) {
      if (std::shared_ptr<const CpuKernel> found = it->second.lock()) {
        FF_LOG(kCache) << "hit: " << what << ": a kernel of this process, " << found->code_bytes()
                       << " bytes of machine code";
        return found;
      }
    }
  }
  FF_LOG(kCache) << "miss: " << what << ": no kernel in this process has this body and these vectors";
  const double start = ThreadMilliseconds();
  auto made = std::make_shared<CpuKernel>();
  made->ir_ = kernel;
  if (engine != Engine::kInterpreter) {
    auto code = emit::CompileX86(kernel, engine == Engine::kAvx512 ? emit::VectorBits::k512 : emit::VectorBits::k256);
    if (code.ok()) {
      made->code_ = *std::move(code);
    } else {
      made->reason_ = std::string(code.status().message());
    }
  } else {
    made->reason_ = "the interpreter was asked for";
  }
  made->compile_ms_ = ThreadMilliseconds() - start;
  FF_LOG(kPerf) << "machine code of " << what << ": " << made->code_bytes() << " bytes in " << made->compile_ms_
                << " ms";
  const std::lock_guard lock(cache.mutex);
  std::erase_if(cache.kernels, [](const auto& entry) { return entry.second.expired(); });
  // Two threads may have compiled the same body: the first one stays.
  std::weak_ptr<const CpuKernel>& slot = cache.kernels[key];
  if (std::shared_ptr<const CpuKernel> found = slot.lock()) return found;
  slot = made;
  return std::shared_ptr<const CpuKernel>(made);
}

void CpuKernel::Call(void** args, std::int64_t begin, std::int64_t end) const {
  code_ != nullptr ? code_->function(args, begin, end) : kernel_ir::Interpret(ir_, args, begin, end);
}

}  // namespace framefuse::cpu
