// Logs by artifact: FF_LOG(kGuards) << text; costs one load and one branch when that artifact is off.
// Artifacts are listed once in log_artifacts.def. A record is one whole text, handed to the sink in one piece (stderr
// unless another is set); sinks are called under a lock, never run Python and must not log. A sink that only stores
// what it gets has it delivered by DeliverLogs, which is called where user code may run.
#ifndef FRAMEFUSE_COMMON_LOGGING_H_
#define FRAMEFUSE_COMMON_LOGGING_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace framefuse {

enum class LogArtifact : std::uint8_t {
#define FF_LOG_ARTIFACT(enumerator, name, text) enumerator,
#include "common/log_artifacts.def"
#undef FF_LOG_ARTIFACT
};

struct LogArtifactInfo {
  LogArtifact artifact;
  const char* name;
  const char* text;
};
const std::vector<LogArtifactInfo>& LogArtifacts();
const char* LogName(LogArtifact artifact);

namespace log_internal {
extern std::atomic<std::uint32_t> enabled;   // bit i: artifact i
extern std::atomic<std::uint32_t> detailed;  // the same; what is detailed is enabled
extern std::atomic<bool> waiting;            // for delivery
extern std::atomic<void (*)()> deliver;
}  // namespace log_internal

inline bool LogEnabled(LogArtifact artifact) {
  return (log_internal::enabled.load(std::memory_order_relaxed) >> static_cast<unsigned>(artifact)) & 1U;
}
void SetLogEnabled(LogArtifact artifact, bool on);
// Whether longer texts are wanted: "+name".
inline bool LogDetailed(LogArtifact artifact) {
  return (log_internal::detailed.load(std::memory_order_relaxed) >> static_cast<unsigned>(artifact)) & 1U;
}
void SetLogDetailed(LogArtifact artifact, bool on);  // on: enables it, too
// All switches at once, for tests that restore them.
std::uint64_t LogMask();  // enabled; above them, detailed
void SetLogMask(std::uint64_t mask);

absl::StatusOr<LogArtifact> FindLogArtifact(std::string_view name);  // the error lists the names
struct LogAlias {
  const char* theirs;  // a name of TORCH_LOGS
  const char* ours;
  bool detailed;
};
const std::vector<LogAlias>& LogAliases();
// "graph_breaks,guards", "all", "-bugs", "+recompiles": adds to what is on. Takes torch's names, too. An error changes
// nothing.
absl::Status EnableLogsFromText(std::string_view text);

using LogSink = std::function<void(LogArtifact artifact, std::string_view text)>;
// An empty sink restores stderr. Returns the sink before.
LogSink SetLogSink(LogSink sink);
// Where user code may run, with the GIL: hands on what a sink has stored. `deliver` is null, or what does it.
inline void DeliverLogs() {
  if (!log_internal::waiting.load(std::memory_order_relaxed)) return;
  if (void (*deliver)() = log_internal::deliver.load()) deliver();
}
void SetLogDelivery(void (*deliver)());
void SetLogsWaiting(bool waiting);
// Emits whether or not the artifact is on; FF_LOG asks first.
ABSL_ATTRIBUTE_COLD void WriteLog(LogArtifact artifact, std::string_view text);

namespace log_internal {

class Record {
 public:
  ABSL_ATTRIBUTE_COLD explicit Record(LogArtifact artifact) : artifact_(artifact) {}
  ~Record() { WriteLog(artifact_, text_.str()); }
  std::ostream& stream() { return text_; }

 private:
  LogArtifact artifact_;
  std::ostringstream text_;
};

struct Voidify {
  void operator&(std::ostream&) const {}
};

}  // namespace log_internal
}  // namespace framefuse

#define FF_LOG(artifact)                                                          \
  ABSL_PREDICT_TRUE(!::framefuse::LogEnabled(::framefuse::LogArtifact::artifact)) \
  ? static_cast<void>(0)                                                          \
  : ::framefuse::log_internal::Voidify() &                                        \
          ::framefuse::log_internal::Record(::framefuse::LogArtifact::artifact).stream()

#endif  // FRAMEFUSE_COMMON_LOGGING_H_
