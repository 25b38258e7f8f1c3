// Torch-level calls as logs and the trace show them, with the source files that the trace keeps (docs/trace.md).
// Invariant: changes nothing; callers ask TraceEnabled first.
#ifndef FRAMEFUSE_SYMBOLIC_ATTEMPT_CALL_TRACE_H_
#define FRAMEFUSE_SYMBOLIC_ATTEMPT_CALL_TRACE_H_

#include <string>

#include "symbolic/journals/fx_journal.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

// The torch-level calls of an entry, with their places, as a list in JSON: known only while the capture is alive.
std::string TraceCalls(const FxJournal& journal, const tracing::TracedGraph& graph);
std::string CallText(const FxNode& call);
void TraceSource(const std::string& file);  // its text, once

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ATTEMPT_CALL_TRACE_H_
