// Trace: what is compiled and why, as JSON lines (docs/trace.md), for framefuse.report: into a file of this process in
// config().trace_dir, and into collectors (explain). Invariants: off, it costs one load and one branch; events are
// whole lines, written at once; no Python runs here. The logs that the report shows are made while the trace is on,
// whether or not the user asked for them, and then go to the trace alone.
#ifndef FRAMEFUSE_COMMON_TRACE_H_
#define FRAMEFUSE_COMMON_TRACE_H_

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "common/json_text.h"

namespace framefuse {

namespace trace_internal {
extern std::atomic<bool> on;
}
inline bool TraceEnabled() { return trace_internal::on.load(std::memory_order_relaxed); }

// Opens, changes or closes the file as the setting says. A folder that cannot be written to is told of once, in the
// log `bugs`.
void FollowTraceFolder();
// Members of the first event of each file, beside the number of the process.
void SetTraceHeader(std::string members);

// `event` is the line's kind; time, thread and the compile id at hand are added.
void WriteTrace(std::string_view event, const JsonObject& members);
// The same for what is told once in each file and collector; whether one has not heard of `key`.
bool TraceWants(const std::string& key);
void WriteTraceOnce(const std::string& key, std::string_view event, const JsonObject& members);

// Collects the lines of all threads from here on. A relayed one's lines wait for DeliverLogs (common/logging.h).
int StartTraceCollector(bool relayed = false);
// The lines since they were taken last.
std::vector<std::string> TakeTraceLines(int collector);
std::vector<std::string> StopTraceCollector(int collector);

}  // namespace framefuse

#endif  // FRAMEFUSE_COMMON_TRACE_H_
