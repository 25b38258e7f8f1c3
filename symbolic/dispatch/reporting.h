// reporting: what capture tells the user: logs, warnings, the package's exceptions, statistics, the stance.
// Invariant: reporting never changes what a program computes; a message names the user's file and line.
#ifndef FRAMEFUSE_SYMBOLIC_DISPATCH_REPORTING_H_
#define FRAMEFUSE_SYMBOLIC_DISPATCH_REPORTING_H_

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "symbolic/attempt/attempt.h"
#include "symbolic/dispatch/api.h"
#include "symbolic/dispatch/eager_fallback.h"
#include "symbolic/entry/compiled_entry.h"
#include "symbolic/frames/user_stack.h"
#include "symbolic/messages/graph_break.h"

namespace framefuse {

Statistics& MutableStatistics();
void InstallErrors(PythonErrors errors);

void LogGraphBreak(const GraphBreakReason& reason, const UserStack& stack);
void LogEntry(const CompiledEntry& entry, PyCodeObject* code);
void LogTimes(const AttemptResult& made, PyCodeObject* code);
// The nearest line of the user's that called, as a line of a message; empty: none is known.
std::string CalledFrom(const UserStack& stack);
// Which guard of the entry fails. Of a module's call the arguments have the names that its forward() gives them.
std::string WhyNot(const Entry& entry, const FrameView& view);
// `name`: the compiled object's, or empty; `limit`: the setting and its value.
void WarnRecompileLimit(PyCodeObject* code, const std::string& name, const std::string& limit,
                        const std::string& failed_guard);
// config.fail_on_recompile_limit_hit: sets framefuse.Unsupported.
void RaiseRecompileLimit(PyCodeObject* code, const std::string& name, const std::string& limit,
                         const std::string& failed_guard);
// Nothing is compiled in somebody's recording (soundness rule 21).
void WarnRecordedStream(PyCodeObject* code);
// Sets framefuse.Unsupported. `setting`: the one that makes the break an error.
void RaiseUnsupported(std::string_view setting, const GraphBreakReason& reason, const UserStack& stack);
void RaiseUnsupported(const EagerFallback& fallback);
// A bug of ours or a failed backend: logged once a message, or raised (`*raised`, a Python error is set).
void ReportFailure(const absl::Status& status, const Ref& error, PyCodeObject* code, bool* raised);
// Asks the stance whether an entry may be made; may set an error, with what `why` says of the entries that do not fit.
bool AllowsCompile(bool has_entries, bool expected, PyCodeObject* code, absl::FunctionRef<std::string()> why,
                   bool* raised);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_DISPATCH_REPORTING_H_
