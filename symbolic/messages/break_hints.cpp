#include "symbolic/messages/break_hints.h"

#include <algorithm>

namespace framefuse {
namespace {

struct Row {
  const char* part;
  const char* code;
  const char* hint;
};
constexpr Row kBreaks[] = {
#define FF_BREAK_HINT(part, code, hint) {part, code, hint},
#define FF_RECOMPILE_HINT(part, hint)
#include "symbolic/messages/break_hints.def"
#undef FF_BREAK_HINT
#undef FF_RECOMPILE_HINT
};
constexpr Row kRecompiles[] = {
#define FF_BREAK_HINT(part, code, hint)
#define FF_RECOMPILE_HINT(part, hint) {part, "", hint},
#include "symbolic/messages/break_hints.def"
#undef FF_BREAK_HINT
#undef FF_RECOMPILE_HINT
};

bool Has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool IsOfWhatWasMet(const Row& row, const GraphBreakReason& reason) {
  if (row.part[0] != '/') return Has(reason.Text(), row.part);
  return Has(reason.file, row.part) || std::any_of(reason.callers.begin(), reason.callers.end(),
                                                   [&](const CodePlace& place) { return Has(place.file, row.part); });
}

bool IsOfCode(std::string_view code, const CodePlace& place) {
  if (code.empty()) return true;
  const std::size_t hole = code.find('%');
  if (hole != std::string_view::npos) {
    std::string around(code);
    around.replace(hole, 1, place.expression);
    return !place.expression.empty() && Has(place.source, around);
  }
  const std::string_view text = place.expression.empty() ? place.source : place.expression;
  return code[0] == '*' ? Has(text, code.substr(1)) : text.starts_with(code);
}

bool IsOf(const Row& row, const GraphBreakReason& reason) {
  return IsOfWhatWasMet(row, reason) && IsOfCode(row.code, reason);
}

}  // namespace

namespace {

// A call of the user's ends in a library, at something that nobody heard of.
std::string HintOfCaller(const GraphBreakReason& reason) {
  const bool passes = reason.kind == GraphBreakKind::kUnlistedCallable ||
                      reason.kind == GraphBreakKind::kOpaqueObject || reason.kind == GraphBreakKind::kIdentityOfFresh ||
                      reason.kind == GraphBreakKind::kFinaliser || reason.kind == GraphBreakKind::kUnsupportedWrite;
  if (reason.is_user || !passes) return "";
  const auto caller = std::find_if(reason.callers.rbegin(), reason.callers.rend(),
                                   [](const CodePlace& place) { return place.is_user && !place.expression.empty(); });
  if (caller == reason.callers.rend()) return "";
  return "do it outside of the compiled function, and pass what it gives: " + caller->expression;
}

}  // namespace

std::string HintOf(const GraphBreakReason& reason) {
  for (const Row& row : kBreaks) {
    if (IsOf(row, reason)) return row.hint;
  }
  const std::string of_caller = HintOfCaller(reason);
  return of_caller.empty() ? GraphBreakHint(reason.kind) : of_caller;
}

std::string HintOfRecompile(std::string_view failed_guard) {
  for (const Row& row : kRecompiles) {
    if (Has(failed_guard, row.part)) return row.hint;
  }
  return "";
}

}  // namespace framefuse
