// GraphBreak: why a graph ends, from one catalogue (graph_breaks.def): kind, context, explanation, hint.
// A break travels as an absl::Status made by MakeGraphBreak; it never shares a channel with a Python
// exception of the traced program, a bug of ours, or a restart.
#ifndef FRAMEFUSE_SYMBOLIC_MESSAGES_GRAPH_BREAK_H_
#define FRAMEFUSE_SYMBOLIC_MESSAGES_GRAPH_BREAK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/status/status.h"

namespace framefuse {

enum class GraphBreakKind : std::uint8_t {
#define FF_GRAPH_BREAK(kind, explanation, hint) kind,
#include "symbolic/messages/graph_breaks.def"
#undef FF_GRAPH_BREAK
};

const char* GraphBreakName(GraphBreakKind kind);
const char* GraphBreakExplanation(GraphBreakKind kind);
const char* GraphBreakHint(GraphBreakKind kind);

// FailedPrecondition with the kind as payload; `context` says what was met (a callable's name, a type …).
ABSL_ATTRIBUTE_COLD absl::Status MakeGraphBreak(GraphBreakKind kind, std::string_view context);
bool IsGraphBreak(const absl::Status& status);
GraphBreakKind GraphBreakKindOf(const absl::Status& status);  // status must be a graph break

// Where a frame stands.
struct CodePlace {
  std::string file;
  int line = 0;
  std::string function;
  std::string source;        // text of the line, stripped
  bool is_user = false;      // no installed package's code
  std::string expression;    // what the instruction stands for; empty: not known
  std::string module;        // nn.Module around it, as a path from the outermost one: "layers.3.self_attn"
  std::string module_class;  // its class; empty: no module is around it
};

// One break of a finished attempt, with where it happened, for logs and explain().
struct GraphBreakReason : CodePlace {
  GraphBreakKind kind = GraphBreakKind::kExplicit;
  std::string context;
  std::vector<CodePlace> callers;  // of what was inlined, outermost first, without the place itself
  std::string Text() const;        // "explanation: context"
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_MESSAGES_GRAPH_BREAK_H_
