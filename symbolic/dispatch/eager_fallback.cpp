#include "symbolic/dispatch/eager_fallback.h"

#include <numeric>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "common/config.h"
#include "common/logging.h"
#include "symbolic/messages/code_text.h"

namespace framefuse {
namespace {

struct Row {
  const char* name;
  const char* explanation;
  const char* hint;
  FallbackSeverity severity;
};
constexpr Row kRows[] = {
#define FF_EAGER_FALLBACK(kind, name, explanation, hint, severity) \
  {name, explanation, hint, FallbackSeverity::severity},
#include "symbolic/dispatch/eager_fallbacks.def"
#undef FF_EAGER_FALLBACK
};
constexpr std::size_t kKinds = std::size(kRows);

const Row& RowOf(FallbackKind kind) { return kRows[static_cast<std::size_t>(kind)]; }

std::array<std::int64_t, kKinds>& Counts() {
  static std::array<std::int64_t, kKinds> counts{};
  return counts;
}

absl::flat_hash_set<std::string>& Reported() {
  static auto* const reported = new absl::flat_hash_set<std::string>();
  return *reported;
}

// Hashes of what was asked for: a code object by its address, name and place, which are compared and never read.
absl::flat_hash_set<std::size_t>& AskedFor() {
  static auto* const asked = new absl::flat_hash_set<std::size_t>();
  return *asked;
}

// A program that makes functions for ever must not fill memory with messages about them.
constexpr std::size_t kMostRemembered = 10000;

}  // namespace

const char* FallbackName(FallbackKind kind) { return RowOf(kind).name; }
const char* FallbackHint(FallbackKind kind) { return RowOf(kind).hint; }
FallbackSeverity SeverityOf(FallbackKind kind) { return RowOf(kind).severity; }

std::string EagerFallback::Text() const {
  if (detail.empty()) return RowOf(kind).explanation;
  return absl::StrCat(RowOf(kind).explanation, ": ", detail);
}

EagerFallback MakeFallback(FallbackKind kind, PyCodeObject* code, std::string_view detail) {
  EagerFallback fallback;
  fallback.kind = kind;
  fallback.detail = std::string(detail);
  fallback.function = QualifiedNameOf(code);
  fallback.file = FileNameOf(code);
  fallback.line = code->co_firstlineno;
  return fallback;
}

void CountFallback(FallbackKind kind) { ++Counts()[static_cast<std::size_t>(kind)]; }

bool TellsCounted() { return config().verbose || LogDetailed(LogArtifact::kFallbacks); }

bool IsOldNews(FallbackKind kind, const PyCodeObject* code, std::string_view detail) {
  if (SeverityOf(kind) == FallbackSeverity::kCounted && !TellsCounted()) return true;
  if (!LogEnabled(LogArtifact::kFallbacks)) return true;
  if (AskedFor().size() >= kMostRemembered) AskedFor().clear();
  const auto key = std::make_tuple(kind, code, code->co_filename, code->co_qualname, code->co_firstlineno, detail);
  return !AskedFor().insert(absl::HashOf(key)).second;
}

void ReportFallback(const EagerFallback& fallback) {
  CountFallback(fallback.kind);
  if (SeverityOf(fallback.kind) == FallbackSeverity::kCounted && !TellsCounted()) return;
  if (!LogEnabled(LogArtifact::kFallbacks)) return;
  const std::string message =
      absl::StrCat(fallback.function, " (", fallback.file, ":", fallback.line, ") runs as Python: ", fallback.Text(),
                   "\n  hint: ", FallbackHint(fallback.kind));
  if (Reported().size() >= kMostRemembered) Reported().clear();
  if (Reported().insert(message).second) FF_LOG(kFallbacks) << message;
}

std::vector<std::pair<std::string, std::int64_t>> FallbackCounts() {
  std::vector<std::pair<std::string, std::int64_t>> counts;
  for (std::size_t i = 0; i < kKinds; ++i) counts.emplace_back(kRows[i].name, Counts()[i]);
  return counts;
}

std::int64_t FallbackTotal() { return std::accumulate(Counts().begin(), Counts().end(), std::int64_t{0}); }

void ForgetReportedFallbacks() {
  Reported().clear();
  AskedFor().clear();
}

}  // namespace framefuse
