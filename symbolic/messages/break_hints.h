// Hints for graph breaks: what to change in the code at hand, so that the graph does not end there. The kind's own hint
// (graph_breaks.def) holds where break_hints.def knows nothing better. Stateless; runs no Python.
#ifndef FRAMEFUSE_SYMBOLIC_MESSAGES_BREAK_HINTS_H_
#define FRAMEFUSE_SYMBOLIC_MESSAGES_BREAK_HINTS_H_

#include <string>
#include <string_view>

#include "symbolic/messages/graph_break.h"

namespace framefuse {

std::string HintOf(const GraphBreakReason& reason);
// What to do about a guard that failed, from its text; empty: nothing better than the text itself is known.
std::string HintOfRecompile(std::string_view failed_guard);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_MESSAGES_BREAK_HINTS_H_
