// Switches and the sink behind FF_LOG; see logging.h.
#include "common/logging.h"

#include <cstdio>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status.h"

namespace framefuse {
namespace log_internal {
// What tells that something is not as the user asked for.
std::atomic<std::uint32_t> enabled{1U << static_cast<unsigned>(LogArtifact::kBugs) |
                                   1U << static_cast<unsigned>(LogArtifact::kFallbacks)};
}  // namespace log_internal

namespace {

struct SinkState {
  std::mutex mutex;
  LogSink sink;  // empty: stderr
};
SinkState& State() {
  static SinkState* const state = new SinkState;  // never destroyed: threads may log at exit
  return *state;
}

void WriteToStderr(LogArtifact artifact, std::string_view text) {
  std::string line = absl::StrCat("[framefuse ", LogName(artifact), "] ");
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

void SetLogEnabled(LogArtifact artifact, bool on) {
  const std::uint32_t bit = 1U << static_cast<unsigned>(artifact);
  if (on) {
    log_internal::enabled.fetch_or(bit, std::memory_order_relaxed);
  } else {
    log_internal::enabled.fetch_and(~bit, std::memory_order_relaxed);
  }
}

std::uint32_t LogMask() { return log_internal::enabled.load(std::memory_order_relaxed); }
void SetLogMask(std::uint32_t mask) { log_internal::enabled.store(mask, std::memory_order_relaxed); }

absl::StatusOr<LogArtifact> FindLogArtifact(std::string_view name) {
  std::vector<std::string> names;
  for (const LogArtifactInfo& info : LogArtifacts()) {
    if (name == info.name) return info.artifact;
    names.emplace_back(info.name);
  }
  return absl::NotFoundError(absl::StrCat("unknown log artifact '", std::string(name),
                                          "'; the artifacts are: ", absl::StrJoin(names, ", "), ", and all"));
}

absl::Status EnableLogsFromText(std::string_view text) {
  const absl::string_view whole(text.data(), text.size());
  for (absl::string_view piece : absl::StrSplit(whole, ',', absl::SkipWhitespace())) {
    piece = absl::StripAsciiWhitespace(piece);
    const bool on = !absl::ConsumePrefix(&piece, "-");
    if (piece == "all") {
      for (const LogArtifactInfo& info : LogArtifacts()) SetLogEnabled(info.artifact, on);
      continue;
    }
    FF_ASSIGN_OR_RETURN(const LogArtifact artifact, FindLogArtifact({piece.data(), piece.size()}));
    SetLogEnabled(artifact, on);
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
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (state.sink) {
    state.sink(artifact, text);
  } else {
    WriteToStderr(artifact, text);
  }
}

}  // namespace framefuse
