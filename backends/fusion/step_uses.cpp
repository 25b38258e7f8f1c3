#include "backends/fusion/step_uses.h"

#include <ATen/DeviceAccelerator.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <fstream>

#include "backends/fusion/operands.h"
#include "common/trace.h"

namespace framefuse::fusion {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenMemoryEvents(5);

// What there is to read or write: elements that lie on each other count once.
std::int64_t BytesOf(const CallState& call, const std::vector<ir::ValueId>& values) {
  std::int64_t bytes = 0;
  for (const ir::ValueId v : values) {
    const at::Tensor& t = call.slots[v];
    if (!t.defined() || !t.has_storage()) continue;
    const auto all = static_cast<std::int64_t>(t.storage().nbytes());
    bytes += std::min(all, t.numel() * static_cast<std::int64_t>(t.element_size()));
  }
  return bytes;
}

bool IsOnCpu(const CallState& call, const std::vector<ir::ValueId>& values) {
  return std::all_of(values.begin(), values.end(), [&](ir::ValueId v) {
    const at::Tensor& t = call.slots[v];
    return !t.defined() || t.is_cpu();
  });
}

std::int64_t ResidentBytes() {
  std::int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Seldom: a program at work makes thousands of steps a second.
void TellMemory(const CallState& call, const std::vector<ir::ValueId>& values) {
  static std::atomic<Clock::rep> told = 0;
  const Clock::time_point now = Clock::now();
  Clock::rep before = told.load();
  if (now - Clock::time_point(Clock::duration(before)) < kBetweenMemoryEvents) return;
  if (!told.compare_exchange_strong(before, now.time_since_epoch().count())) return;
  JsonObject json;
  json.Int("resident", ResidentBytes());
  for (const ir::ValueId v : values) {
    const at::Tensor& t = call.slots[v];
    if (!t.defined() || !t.is_cuda()) continue;
    const auto stats = at::accelerator::getDeviceStats(t.device().index());
    json.Int("allocated", stats.allocated_bytes[0].current).Text("device", t.device().str());
    break;
  }
  WriteTrace("memory", json);
}

}  // namespace

absl::Status StepUses::Measure(std::size_t index, const Step& step, const CallState& call,
                               absl::FunctionRef<absl::Status()> run) {
  if (!TraceEnabled()) return run();
  const std::vector<ir::ValueId> results = step.Results();
  const bool counts = !results.empty() && IsOnCpu(call, step.Reads());
  const std::int64_t read = counts ? BytesOf(call, step.Reads()) : 0;
  const Clock::time_point begun = Clock::now();
  absl::Status status = run();
  const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  if (!status.ok()) return status;
  TellMemory(call, results.empty() ? step.Reads() : results);
  // A launch on another device ends before the kernel does.
  if (!counts || !IsOnCpu(call, results)) return status;
  Use use;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Use& all = uses_[index];
    ++all.runs;
    all.bytes += read + BytesOf(call, results);
    all.seconds += seconds;
    use = all;
  }
  if (std::has_single_bit(static_cast<std::uint64_t>(use.runs))) Tell(index, step, use);
  return status;
}

void StepUses::Tell(std::size_t index, const Step& step, const Use& use) const {
  const CompileIdScope id(id_);
  std::string names;
  for (const PlanGroup& group : step.Explain()) names += (names.empty() ? "" : "; ") + group.description;
  JsonObject json;
  json.Text("graph", graph_).Int("step", static_cast<std::int64_t>(index)).Text("kernel", names);
  WriteTrace("kernel", json.Int("runs", use.runs).Number("seconds", use.seconds).Int("bytes", use.bytes));
}

}  // namespace framefuse::fusion
