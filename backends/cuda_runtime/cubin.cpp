#include "backends/cuda_runtime/cubin.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/cuda_runtime/driver.h"
#include "backends/cuda_runtime/linker.h"
#include "common/build_id.h"
#include "common/disk_cache.h"
#include "common/logging.h"
#include "common/status.h"
#include "torch/version.h"

namespace framefuse::cuda {
namespace {

// The guard of the header that NVRTC puts before every program: with it defined the header is empty, and the program
// declares the little that it uses (emit/cuda/prelude.cu). From 12.8 on what is left is built in.
constexpr const char* kNoHeader = "-D__CUDA_RUNTIME_H__";

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
  // From 12.9 on NVRTC has a cache on disk, too: ours is asked first, so that what it would find is rarely there.
  if (n.major * 100 + n.minor >= 1209) options.push_back("--no-cache");
  if (n.major * 100 + n.minor >= 1208) options.insert(options.end(), {"--disable-warnings", kNoHeader});
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
  options.reserve(given.size());
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

// How many no cache had, by who made them.
struct Made {
  std::atomic<int> by_nvrtc = 0, by_linker = 0;
};

// By whom a cubin is made: another compiler, another build of it, other options or another framefuse make another.
std::string MadeBy(const std::string& compiler, const void* of_it, const std::vector<std::string>& options) {
  return absl::StrCat(compiler, " (", BuildIdOf(of_it), ") ", absl::StrJoin(options, " "), ", framefuse ", OwnBuildId(),
                      ", torch ", TORCH_VERSION);
}

absl::StatusOr<std::string> FindOrCompile(const std::string& text, int architecture, Made* made) {
  absl::StatusOr<const Nvrtc*> n = GetNvrtc();
  if (!n.ok()) return n.status();
  std::vector<std::string> options = OptionsFor(**n, architecture);
  const std::string compiler = absl::StrCat("NVRTC ", (*n)->major, ".", (*n)->minor);
  const std::string by = MadeBy(compiler, reinterpret_cast<const void*>((*n)->Version), options);
  return DiskCache().Get({"cubin", by, text}, [&] {
    ++made->by_nvrtc;
    absl::StatusOr<std::string> cubin = RunNvrtc(**n, text, options);
    if (!cubin.ok() && std::erase(options, kNoHeader) > 0) {
      FF_LOG(kPerf) << "NVRTC failed without its header: " << MessageOf(cubin.status());
      cubin = RunNvrtc(**n, text, options);
    }
    return cubin;
  });
}

absl::StatusOr<std::string> FindOrAssemble(const std::string& ptx, int architecture, Made* made) {
  absl::StatusOr<const Linker*> l = GetLinker();
  if (!l.ok()) return l.status();
  const std::vector<std::string> options = LinkerOptions(**l, architecture);
  const std::string linker = absl::StrCat("nvJitLink ", (*l)->major, ".", (*l)->minor);
  const std::string by = MadeBy(linker, reinterpret_cast<const void*>((*l)->Version), options);
  return DiskCache().Get({"cubin", by, ptx}, [&] {
    absl::StatusOr<std::string> cubin = Assemble(**l, ptx, options);
    if (cubin.ok()) ++made->by_linker;
    return cubin;
  });
}

}  // namespace

// Where processors are few, twice as many: one program's front end holds a lock of NVRTC's, and the others wait.
std::size_t MostCubinsAtATime() {
  const unsigned processors = std::max(1u, std::thread::hardware_concurrency());
  return std::max(processors, std::min(2 * processors, 8u));
}

std::vector<absl::StatusOr<std::string>> CompileCubins(const std::vector<CubinSource>& sources, int architecture) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<absl::StatusOr<std::string>> cubins(sources.size());
  std::atomic<std::size_t> next = 0;
  Made made;
  const auto work = [&] {
    for (std::size_t i = next++; i < sources.size(); i = next++) {
      const auto& make = sources[i].ptx ? FindOrAssemble : FindOrCompile;
      cubins[i] = make(sources[i].text, architecture, &made);
    }
  };
  std::vector<std::thread> others;
  try {
    while (others.size() + 1 < std::min(sources.size(), MostCubinsAtATime())) others.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads: those that there are do it
  }
  work();
  for (std::thread& other : others) other.join();
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  if (made.by_nvrtc + made.by_linker > 0) {
    FF_LOG(kPerf) << "cubins: " << made.by_linker << " by nvJitLink, " << made.by_nvrtc << " by NVRTC, "
                  << sources.size() << " in all, in " << spent.count() << " ms";
  }
  return cubins;
}

}  // namespace framefuse::cuda
