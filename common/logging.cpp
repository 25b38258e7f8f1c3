// Switches and the sink behind FF_LOG; see logging.h.
#include "common/logging.h"

#include <cstdio>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/compile_id.h"
#include "common/log_tap.h"
#include "common/status.h"

namespace framefuse {
namespace log_internal {
// What tells that something is not as the user asked for.
constexpr std::uint32_t kAtFirst =
    1U << static_cast<unsigned>(LogArtifact::kBugs) | 1U << static_cast<unsigned>(LogArtifact::kFallbacks);
std::atomic<std::uint32_t> enabled{kAtFirst};
std::atomic<std::uint32_t> detailed{0};
std::atomic<bool> waiting{false};
std::atomic<void (*)()> deliver{nullptr};
}  // namespace log_internal

namespace {

struct SinkState {
  std::mutex mutex;
  LogSink sink;                                               // empty: stderr
  std::atomic<std::uint32_t> wanted{log_internal::kAtFirst};  // by the user
  std::atomic<std::uint32_t> tapped{0};                       // what is enabled is one of both
  std::atomic<void (*)(LogArtifact, std::string_view)> tap{nullptr};
};
SinkState& State() {
  static SinkState* const state = new SinkState;  // never destroyed: threads may log at exit
  return *state;
}

void WriteToStderr(LogArtifact artifact, std::string_view text) {
  const CompileId id = CurrentCompileId();
  std::string line = absl::StrCat("[framefuse ", LogName(artifact), "] ", id ? absl::StrCat("[", id.Text(), "] ") : "");
  line.append(text);
  if (line.back() != '\n') line.push_back('\n');
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

const std::vector<LogArtifactInfo>& LogArtifacts() {
  static const auto* const artifacts = new std::vector<LogArtifactInfo>{
#define FF_LOG_ARTIFACT(enumerator, name, text) {LogArtifact::enumerator, name, text},
#include "common/log_artifacts.def"
#undef FF_LOG_ARTIFACT
  };
  return *artifacts;
}

const char* LogName(LogArtifact artifact) { return LogArtifacts()[static_cast<std::size_t>(artifact)].name; }

namespace {

void SetBit(std::atomic<std::uint32_t>& bits, LogArtifact artifact, bool on) {
  const std::uint32_t bit = 1U << static_cast<unsigned>(artifact);
  on ? bits.fetch_or(bit, std::memory_order_relaxed) : bits.fetch_and(~bit, std::memory_order_relaxed);
}

void Enable(const SinkState& state) { log_internal::enabled.store(state.wanted.load() | state.tapped.load()); }

bool Has(const std::atomic<std::uint32_t>& bits, LogArtifact artifact) {
  return ((bits.load(std::memory_order_relaxed) >> static_cast<unsigned>(artifact)) & 1U) != 0;
}

}  // namespace

void SetLogTap(void (*tap)(LogArtifact artifact, std::string_view text), std::uint32_t artifacts) {
  SinkState& state = State();
  state.tap.store(tap);
  state.tapped.store(artifacts);
  Enable(state);
}

void SetLogEnabled(LogArtifact artifact, bool on) {
  SetBit(State().wanted, artifact, on);
  Enable(State());
  SetBit(log_internal::detailed, artifact, false);
}

void SetLogDetailed(LogArtifact artifact, bool on) {
  if (on) SetBit(State().wanted, artifact, true);
  Enable(State());
  SetBit(log_internal::detailed, artifact, on);
}

std::uint64_t LogMask() {
  return State().wanted.load(std::memory_order_relaxed) |
         std::uint64_t{log_internal::detailed.load(std::memory_order_relaxed)} << 32;
}
void SetLogMask(std::uint64_t mask) {
  State().wanted.store(static_cast<std::uint32_t>(mask), std::memory_order_relaxed);
  Enable(State());
  log_internal::detailed.store(static_cast<std::uint32_t>(mask >> 32), std::memory_order_relaxed);
}

void SetLogDelivery(void (*deliver)()) { log_internal::deliver.store(deliver); }
void SetLogsWaiting(bool waiting) { log_internal::waiting.store(waiting, std::memory_order_relaxed); }

const std::vector<LogAlias>& LogAliases() {
  static const auto* const aliases = new std::vector<LogAlias>{
#define FF_LOG_ALIAS(theirs, ours, detailed) {theirs, ours, detailed},
#include "common/log_aliases.def"
#undef FF_LOG_ALIAS
  };
  return *aliases;
}

absl::StatusOr<LogArtifact> FindLogArtifact(std::string_view name) {
  std::vector<std::string> names;
  for (const LogArtifactInfo& info : LogArtifacts()) {
    if (name == info.name) return info.artifact;
    names.emplace_back(info.name);
  }
  return absl::NotFoundError(absl::StrCat("unknown log artifact '", std::string(name),
                                          "'; the artifacts are: ", absl::StrJoin(names, ", "), ", and all"));
}

namespace {

struct Switch {
  LogArtifact artifact;
  bool on;
  bool detailed;
};

// What one word of the text switches.
absl::Status AddSwitches(absl::string_view word, std::vector<Switch>* switches) {
  const bool off = absl::ConsumePrefix(&word, "-");
  const bool detailed = !off && absl::ConsumePrefix(&word, "+");
  if (word == "all") {
    for (const LogArtifactInfo& info : LogArtifacts()) switches->push_back({info.artifact, !off, detailed});
    return absl::OkStatus();
  }
  absl::string_view name = word;
  bool of_alias = false;
  for (const LogAlias& alias : LogAliases()) {
    if (word != alias.theirs) continue;
    name = alias.ours;
    of_alias = alias.detailed;
  }
  const absl::StatusOr<LogArtifact> artifact = FindLogArtifact({name.data(), name.size()});
  if (!artifact.ok()) return artifact.status();
  switches->push_back({*artifact, !off, detailed || (of_alias && !off)});
  return absl::OkStatus();
}

}  // namespace

absl::Status EnableLogsFromText(std::string_view text) {
  std::vector<Switch> switches;
  for (absl::string_view word :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ',', absl::SkipWhitespace())) {
    FF_RETURN_IF_ERROR(AddSwitches(absl::StripAsciiWhitespace(word), &switches));
  }
  for (const Switch& s : switches) {
    SetLogEnabled(s.artifact, s.on);
    if (s.detailed) SetLogDetailed(s.artifact, true);
  }
  return absl::OkStatus();
}

LogSink SetLogSink(LogSink sink) {
  SinkState& state = State();
  const std::lock_guard<std::mutex> lock(state.mutex);
  return std::exchange(state.sink, std::move(sink));
}

void WriteLog(LogArtifact artifact, std::string_view text) {
  SinkState& state = State();
  if (Has(state.tapped, artifact)) {
    if (auto* const tap = state.tap.load()) tap(artifact, text);
    if (!Has(state.wanted, artifact)) return;
  }
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (state.sink) {
    state.sink(artifact, text);
  } else {
    WriteToStderr(artifact, text);
  }
}

}  // namespace framefuse
