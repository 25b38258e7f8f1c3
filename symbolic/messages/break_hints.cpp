#include "symbolic/messages/break_hints.h"

#include <algorithm>

namespace framefuse {
namespace {

struct Row {
  const char* part;
  const char* hint;
};
constexpr Row kBreaks[] = {
#define FF_BREAK_HINT(part, hint) {part, hint},
#define FF_RECOMPILE_HINT(part, hint)
#include "symbolic/messages/break_hints.def"
#undef FF_BREAK_HINT
#undef FF_RECOMPILE_HINT
};
constexpr Row kRecompiles[] = {
#define FF_BREAK_HINT(part, hint)
#define FF_RECOMPILE_HINT(part, hint) {part, hint},
#include "symbolic/messages/break_hints.def"
#undef FF_BREAK_HINT
#undef FF_RECOMPILE_HINT
};

bool Has(std::string_view text, const char* part) { return text.find(part) != std::string_view::npos; }

bool IsOf(const Row& row, const GraphBreakReason& reason) {
  if (row.part[0] != '/') return Has(reason.context, row.part);
  return Has(reason.file, row.part) || std::any_of(reason.callers.begin(), reason.callers.end(),
                                                   [&](const CodePlace& place) { return Has(place.file, row.part); });
}

}  // namespace

std::string HintOf(const GraphBreakReason& reason) {
  if (reason.kind == GraphBreakKind::kSuspendedGenerator && !reason.is_user) {
    return "it follows from the graph break inside of the loop: without that one it goes, too";
  }
  for (const Row& row : kBreaks) {
    if (IsOf(row, reason)) return row.hint;
  }
  return GraphBreakHint(reason.kind);
}

std::string HintOfRecompile(std::string_view failed_guard) {
  for (const Row& row : kRecompiles) {
    if (Has(failed_guard, row.part)) return row.hint;
  }
  return "";
}

}  // namespace framefuse
