// log_relay: hands log records to Python's logging (framefuse/_logs.py). A record may be written without the GIL, in
// the middle of a capture, or by any thread: the sink stores it, and it is delivered where user code may run, which is
// after the piece of a frame that wrote it, or when the main thread's evaluator has a moment (Py_AddPendingCall).
// Invariants: no Python runs under the lock; what a handler raises reaches nobody; frames of handlers are not captured,
// and nothing that a handler calls is logged.
#ifndef FRAMEFUSE_PYTHON_LOG_RELAY_H_
#define FRAMEFUSE_PYTHON_LOG_RELAY_H_

#include "common/logging.h"
#include "frame_eval/ref.h"

namespace framefuse {

// `deliver(records)` gets a list of (artifact, text, thread's identity, seconds since the epoch, compile id or "").
void StartLogRelay(Ref deliver);
// `receive()` is called where records are delivered, whenever something waits: for the trace's lines.
void SetTraceReceiver(Ref receive);
// From here on records go to stderr at once: at the end of the process. What is waiting is delivered first.
void StopLogRelay();
// The sink, for who puts another in its place for a while.
LogSink RelayingSink();

}  // namespace framefuse

#endif  // FRAMEFUSE_PYTHON_LOG_RELAY_H_
