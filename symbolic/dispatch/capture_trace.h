// What captures find, as events of the trace (docs/trace.md). Invariant: changes nothing; callers ask TraceEnabled
// first.
#ifndef FRAMEFUSE_SYMBOLIC_DISPATCH_CAPTURE_TRACE_H_
#define FRAMEFUSE_SYMBOLIC_DISPATCH_CAPTURE_TRACE_H_

#include <string>
#include <vector>

#include "symbolic/attempt/attempt.h"
#include "symbolic/dispatch/eager_fallback.h"
#include "symbolic/frames/user_stack.h"

namespace framefuse {

// One compilation, as far as it came.
struct TracedCompile {
  PyCodeObject* code = nullptr;     // the user's
  int line = 0;                     // where the piece begins
  bool resumes = false;             // it goes on after a break
  std::string name;                 // of the compiled object
  std::vector<std::string> failed;  // what the entries that there were say of the call
  UserStack stack;
  double begun = 0;  // seconds since the epoch
};
// Of a compilation that begins now: of `shown`, the code that messages name.
TracedCompile BeginTracing(frame_ops::Frame* frame, PyCodeObject* shown, std::string name,
                           std::vector<std::string> failed);
void TraceCompile(const TracedCompile& compile, const AttemptResult& result);
void TraceBreak(const GraphBreakReason& reason, const UserStack& stack);
void TraceFallback(const EagerFallback& fallback);
void TraceBug(const std::string& message);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_DISPATCH_CAPTURE_TRACE_H_
