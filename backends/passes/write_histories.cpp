#include "backends/passes/write_histories.h"

#include "backends/graph/operators.h"
#include "backends/graph/subgraph.h"

namespace framefuse {

WriteHistories::WriteHistories(const ir::Graph& recorded) : carry_(recorded.values.size(), false) {
  for (const ir::Output& o : recorded.outputs) {
    const bool of_input = o.role == ir::OutputRole::kGradient && o.input >= 0;
    if (of_input) carry_[At(recorded.inputs[At(o.input)].value)] = true;
  }
}

void WriteHistories::Note(const ir::Node& n) {
  bool carries = false;
  if (n.history == ir::History::kCutWrite) {
    carries = Carry(n.args[0].value);
  } else if (n.history == ir::History::kKept && !ir::Is(n.op, ir::OpName::kDetach)) {
    ir::ForEachUse(n, [&](ir::ValueId v) { carries = carries || Carry(v); });
  }
  for (ir::ValueId v : n.outputs) {
    if (v == ir::kNoValue) continue;
    if (At(v) >= carry_.size()) carry_.resize(At(v) + 1, false);
    carry_[At(v)] = carries;
  }
}

bool WriteHistories::Writes(const ir::Node& n, ir::ValueId before, ir::ValueId value) {
  return n.history == ir::History::kCut && !n.op->is_view() && n.list_sizes.empty() && n.outputs.size() == 1 &&
         n.outputs[0] == value && !n.args.empty() && n.args[0].kind == ir::Arg::Kind::kValue &&
         n.args[0].value == before;
}

}  // namespace framefuse
