#include "symbolic/messages/graph_break.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/coverage.h"

namespace framefuse {
namespace {

constexpr char kPayload[] = "framefuse.graph_break";

struct Row {
  const char* name;
  const char* explanation;
  const char* hint;
};
constexpr Row kRows[] = {
#define FF_GRAPH_BREAK(kind, explanation, hint) {#kind, explanation, hint},
#include "symbolic/messages/graph_breaks.def"
#undef FF_GRAPH_BREAK
};

const bool declared = [] {
  for (const Row& row : kRows) DeclareKinds("break", {row.name + 1});
  return true;
}();

const Row& RowOf(GraphBreakKind kind) { return kRows[static_cast<std::size_t>(kind)]; }

}  // namespace

const char* GraphBreakName(GraphBreakKind kind) { return RowOf(kind).name + 1; }
const char* GraphBreakExplanation(GraphBreakKind kind) { return RowOf(kind).explanation; }
const char* GraphBreakHint(GraphBreakKind kind) { return RowOf(kind).hint; }

absl::Status MakeGraphBreak(GraphBreakKind kind, std::string_view context) {
  absl::Status status = absl::FailedPreconditionError(absl::string_view(context.data(), context.size()));
  status.SetPayload(kPayload, absl::Cord(absl::StrCat(static_cast<int>(kind))));
  return status;
}

bool IsGraphBreak(const absl::Status& status) { return status.GetPayload(kPayload).has_value(); }

GraphBreakKind GraphBreakKindOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  int kind = 0;
  if (payload.has_value() && !absl::SimpleAtoi(std::string(*payload), &kind)) kind = 0;
  return static_cast<GraphBreakKind>(kind);
}

std::string GraphBreakReason::Text() const {
  if (context.empty()) return GraphBreakExplanation(kind);
  return absl::StrCat(GraphBreakExplanation(kind), ": ", context);
}

}  // namespace framefuse
