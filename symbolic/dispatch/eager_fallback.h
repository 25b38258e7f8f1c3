// EagerFallback: a frame of a compiled call that Python runs, and why, from one catalogue (eager_fallbacks.def).
// Invariant: no frame of the user's runs as Python inside a compiled call without one: each is counted, and told to the
// log `fallbacks` once a code object, kind and detail. What the user asked for by name (disable(), the stance
// force_eager, config.capture_on) is no fallback. Needs the GIL.
#ifndef FRAMEFUSE_SYMBOLIC_DISPATCH_EAGER_FALLBACK_H_
#define FRAMEFUSE_SYMBOLIC_DISPATCH_EAGER_FALLBACK_H_

#include <Python.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace framefuse {

enum class FallbackKind : std::uint8_t {
#define FF_EAGER_FALLBACK(kind, name, explanation, hint, severity) kind,
#include "symbolic/dispatch/eager_fallbacks.def"
#undef FF_EAGER_FALLBACK
};

enum class FallbackSeverity : std::uint8_t { kRefused, kLogged, kCounted };

const char* FallbackName(FallbackKind kind);
const char* FallbackHint(FallbackKind kind);
FallbackSeverity SeverityOf(FallbackKind kind);

struct EagerFallback {
  FallbackKind kind = FallbackKind::kBug;
  std::string detail;
  std::string function;  // the user's: a module's class and forward for a call of the module
  std::string file;
  int line = 0;
  std::string Text() const;  // "explanation: detail"
};

// `code` is the user's code object that the message names.
EagerFallback MakeFallback(FallbackKind kind, PyCodeObject* code, std::string_view detail);

void CountFallback(FallbackKind kind);
// Whether the log tells of what a program does by itself, too.
bool TellsCounted();
// Whether the log has nothing new to say of it: it is off, or has said the same of this code object. Makes no text, as
// frames at a limit ask at each call.
[[nodiscard]] bool IsOldNews(FallbackKind kind, const PyCodeObject* code, std::string_view detail);
// Counts and logs.
void ReportFallback(const EagerFallback& fallback);
// By name, since the process started; all kinds.
std::vector<std::pair<std::string, std::int64_t>> FallbackCounts();
std::int64_t FallbackTotal();
// After it each message is logged again.
void ForgetReportedFallbacks();

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_DISPATCH_EAGER_FALLBACK_H_
