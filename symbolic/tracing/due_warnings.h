// due_warnings: what torch warns of once a process, as it stands in this process. While an attempt runs torch says it
// each time, so that no attempt uses it up; such a warning breaks the graph. An attempt that met one is made anew and
// hears only what eager would say now: an operator warns as in eager there, and the handler throws, so that torch does
// not take the warning for said. Invariant: no attempt uses a warning up.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_DUE_WARNINGS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_DUE_WARNINGS_H_

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <string_view>

namespace framefuse::tracing {

class Recorder;
struct OpTraits;

// While one lives, torch says each time what it says once a process. The flag is the process's and not a thread's;
// whoever makes one holds the GIL.
class AllWarningsSaid {
 public:
  AllWarningsSaid();
  ~AllWarningsSaid();
  AllWarningsSaid(const AllWarningsSaid&) = delete;
  AllWarningsSaid& operator=(const AllWarningsSaid&) = delete;
};

// While one lives, operators that are called on this thread while `recorder` is the current one warn as in eager, and
// the first warning breaks.
class DueWarningsHeard {
 public:
  explicit DueWarningsHeard(Recorder* recorder);
  ~DueWarningsHeard();
  DueWarningsHeard(const DueWarningsHeard&) = delete;
  DueWarningsHeard& operator=(const DueWarningsHeard&) = delete;

 private:
  std::uint64_t callback_;
};

// Of a result that is resized: traced code says it itself.
[[nodiscard]] bool IsOfResized(std::string_view words);

// Whether torch says this each time. It is no break, but left to who called torch.
[[nodiscard]] bool IsSaidEachTime(std::string_view words);

// Makes a warning the recording's break, and throws.
[[noreturn]] void BreakOnWarning(Recorder& recorder, const c10::Warning& warning);

// Whether eager would warn, in this process and now, when it runs the operator on such arguments.
[[nodiscard]] bool IsWarningDue(const OpTraits& traits, c10::ArrayRef<c10::IValue> args);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_DUE_WARNINGS_H_
