#include "common/trace.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/compile_id.h"
#include "common/config.h"
#include "common/log_tap.h"
#include "common/logging.h"

namespace framefuse {
namespace trace_internal {
std::atomic<bool> on{false};
}

namespace {

// What the report shows of the logs.
constexpr LogArtifact kTapped[] = {LogArtifact::kFusion,  LogArtifact::kOutputCode, LogArtifact::kAot,
                                   LogArtifact::kDynamic, LogArtifact::kEffects,    LogArtifact::kCache};

struct FileSink {
  std::FILE* file = nullptr;
  std::string folder;  // as the setting says
  pid_t process = 0;
  absl::flat_hash_set<std::string> told;
};

struct Collector {
  bool relayed = false;
  std::vector<std::string> lines;
  absl::flat_hash_set<std::string> told;
};

void Collect(Collector& collector, const std::string& line) {
  collector.lines.push_back(line);
  if (collector.relayed) SetLogsWaiting(true);
}

struct State {
  std::mutex mutex;
  std::string header;
  FileSink file;
  absl::flat_hash_map<int, Collector> collectors;
  int last_collector = 0;
};
State& Shared() {
  static State* const state = new State;  // never destroyed: threads may write at exit
  return *state;
}

std::string Line(std::string_view event, const std::string& members) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  JsonObject line;
  line.Text("event", event);
  line.Number("time", std::chrono::duration<double>(now).count());
  line.Int("thread", static_cast<std::int64_t>(pthread_self()));
  if (const CompileId id = CurrentCompileId()) line.Text("id", id.Text());
  return absl::StrCat("{", line.members(), members.empty() ? "" : ",", members, "}");
}

std::string ProcessLine(const State& state) {
  return Line("process", absl::StrCat("\"pid\":", getpid(), state.header.empty() ? "" : ",", state.header));
}

void WriteToFile(FileSink& sink, std::string line) {
  line.push_back('\n');
  std::fwrite(line.data(), 1, line.size(), sink.file);
  std::fflush(sink.file);
}

void Close(FileSink& sink) {
  if (sink.file != nullptr) std::fclose(sink.file);
  sink = FileSink();
}

std::string FileName(const std::string& folder) {
  char host[256] = "host";
  gethostname(host, sizeof host - 1);
  return absl::StrCat(folder, "/framefuse_", host, "_", getpid(), ".jsonl");
}

// Empty, or why it could not be opened.
std::string Open(State& state, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string name = FileName(folder);
  std::FILE* file = std::fopen(name.c_str(), "ae");
  state.file.folder = folder;
  state.file.process = getpid();
  if (file == nullptr) return absl::StrCat("the trace cannot be written to ", name, ": ", std::strerror(errno));
  state.file.file = file;
  WriteToFile(state.file, ProcessLine(state));
  return "";
}

void Tap(LogArtifact artifact, std::string_view text) {
  JsonObject members;
  members.Text("artifact", LogName(artifact)).Text("text", text);
  WriteTrace("log", members);
}

// The mutex is held.
void Switch(const State& state) {
  const bool on = state.file.file != nullptr || !state.collectors.empty();
  if (trace_internal::on.exchange(on) == on) return;
  std::uint32_t tapped = 0;
  for (const LogArtifact artifact : kTapped) tapped |= 1U << static_cast<unsigned>(artifact);
  SetLogTap(on ? &Tap : nullptr, on ? tapped : 0);
}

}  // namespace

void SetTraceHeader(std::string members) {
  State& state = Shared();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.header = std::move(members);
}

void FollowTraceFolder() {
  const std::string folder = config().trace_dir.get();
  State& state = Shared();
  std::string problem;
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    // After a fork the file is the parent's.
    if (folder == state.file.folder && (folder.empty() || state.file.process == getpid())) return;
    Close(state.file);
    if (!folder.empty()) problem = Open(state, folder);
    Switch(state);
  }
  if (!problem.empty()) FF_LOG(kBugs) << problem;
}

void WriteTrace(std::string_view event, const JsonObject& members) {
  if (!TraceEnabled()) return;
  const std::string line = Line(event, members.members());
  State& state = Shared();
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (state.file.file != nullptr && state.file.process == getpid()) WriteToFile(state.file, line);
  for (auto& [id, collector] : state.collectors) Collect(collector, line);
}

bool TraceWants(const std::string& key) {
  if (!TraceEnabled()) return false;
  State& state = Shared();
  const std::lock_guard<std::mutex> lock(state.mutex);
  bool wanted = state.file.file != nullptr && !state.file.told.contains(key);
  for (const auto& [id, collector] : state.collectors) wanted = wanted || !collector.told.contains(key);
  return wanted;
}

void WriteTraceOnce(const std::string& key, std::string_view event, const JsonObject& members) {
  if (!TraceEnabled()) return;
  const std::string line = Line(event, members.members());
  State& state = Shared();
  const std::lock_guard<std::mutex> lock(state.mutex);
  const bool in_file = state.file.file != nullptr && state.file.process == getpid();
  if (in_file && state.file.told.insert(key).second) WriteToFile(state.file, line);
  for (auto& [id, collector] : state.collectors) {
    if (collector.told.insert(key).second) Collect(collector, line);
  }
}

int StartTraceCollector(bool relayed) {
  State& state = Shared();
  const std::lock_guard<std::mutex> lock(state.mutex);
  const int id = ++state.last_collector;
  state.collectors[id].lines.push_back(ProcessLine(state));
  state.collectors[id].relayed = relayed;
  Switch(state);
  return id;
}

std::vector<std::string> TakeTraceLines(int collector) {
  State& state = Shared();
  const std::lock_guard<std::mutex> lock(state.mutex);
  const auto found = state.collectors.find(collector);
  return found == state.collectors.end() ? std::vector<std::string>() : std::exchange(found->second.lines, {});
}

std::vector<std::string> StopTraceCollector(int collector) {
  State& state = Shared();
  const std::lock_guard<std::mutex> lock(state.mutex);
  std::vector<std::string> lines;
  const auto found = state.collectors.find(collector);
  if (found != state.collectors.end()) {
    lines = std::move(found->second.lines);
    state.collectors.erase(found);
  }
  Switch(state);
  return lines;
}

}  // namespace framefuse
