#include "backends/autograd/tangent_use.h"

#include <algorithm>
#include <set>

#include "absl/status/statusor.h"
#include "backends/graph/operators.h"
#include "backends/passes/laid_out.h"
#include "backends/passes/pass.h"
#include "common/index.h"

namespace framefuse {
namespace {

using ir::kNoValue;
using ir::Node;
using ir::ValueId;

void Join(const std::vector<bool>& more, std::vector<bool>* all) {
  if (all->empty()) all->assign(more.size(), false);
  for (std::size_t t = 0; t < more.size(); ++t) (*all)[t] = (*all)[t] || more[t];
}

// Eager's node for a write into a view saves nothing, and yet serves one pass. No other of torch's first makes memory
// like a tangent's and then fills it; what a program's own backward makes so has an origin.
bool IsOfWriteIntoView(const Node& n) { return n.origin < 0 && ir::Has(n.op, ir::OpFact::kUnset); }

// Of a conditional: for each result the operands that either branch computes it from. Empty: of any other node, or one
// whose branches are not known.
std::vector<std::vector<bool>> OperandsOfResults(const Node& n) {
  std::vector<std::vector<bool>> of_result;
  for (const char* branch : {"true_branch", "false_branch"}) {
    const int text = n.op->FindArgument(branch);
    if (text < 0) return {};
    absl::StatusOr<ir::Graph> graph = ir::Parse(n.args[At(text)].constant.toStringRef());
    if (!graph.ok() || !Functionalize(*graph).ok() || graph->outputs.size() != n.outputs.size()) return {};
    std::vector<ValueId> inputs;
    for (const ir::Input& in : graph->inputs) inputs.push_back(in.value);
    const std::vector<std::vector<bool>> of_value = TangentsOfValues(*graph, inputs);
    of_result.resize(n.outputs.size());
    for (std::size_t k = 0; k < of_result.size(); ++k) {
      const ValueId v = graph->outputs[k].value;
      if (v != kNoValue) Join(of_value[At(v)], &of_result[k]);
    }
  }
  return of_result;
}

}  // namespace

bool EqualMetadata(const ir::Value& a, const ir::Value& b) {
  return a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides && a.device == b.device;
}

std::vector<std::vector<bool>> TangentsOfValues(const ir::Graph& graph, const std::vector<ValueId>& tangents) {
  std::vector<std::vector<bool>> of_value(graph.values.size());
  for (std::size_t t = 0; t < tangents.size(); ++t) {
    of_value[At(tangents[t])].assign(tangents.size(), false);
    of_value[At(tangents[t])][t] = true;
  }
  for (const Node& n : graph.nodes) {
    std::vector<bool> all;
    ir::ForEachUse(n, [&](ValueId v) { Join(of_value[At(v)], &all); });
    if (all.empty()) continue;
    const std::vector<std::vector<bool>> of_result = OperandsOfResults(n);
    for (std::size_t k = 0; k < n.outputs.size(); ++k) {
      if (n.outputs[k] == kNoValue) continue;
      std::vector<bool>& mine = of_value[At(n.outputs[k])];
      mine = all;
      if (of_result.empty()) continue;
      mine.clear();
      const std::vector<ValueId>& operands = n.args[At(n.op->FindArgument("operands"))].values;
      for (std::size_t o = 0; o < operands.size() && o < of_result[k].size(); ++o) {
        if (of_result[k][o] && operands[o] != kNoValue) Join(of_value[At(operands[o])], &mine);
      }
    }
  }
  return of_value;
}

TangentUse::TangentUse(const ir::Graph& backward, std::size_t saved)
    : readers_(saved), reads_saved_(backward.nodes.size(), false) {
  std::vector<ValueId> tangents;
  for (std::size_t i = saved; i < backward.inputs.size(); ++i) tangents.push_back(backward.inputs[i].value);
  tangents_ = TangentsOfValues(backward, tangents);
  std::vector<std::set<std::int32_t>> readers(backward.values.size());
  for (std::size_t i = backward.nodes.size(); i-- > 0;) {
    const Node& n = backward.nodes[i];
    bool computes = false;
    ir::ForEachUse(n, [&](ValueId v) { computes = computes || !tangents_[At(v)].empty(); });
    std::set<std::int32_t> mine;
    if (computes) mine.insert(static_cast<std::int32_t>(i));
    for (ValueId v : n.outputs) {
      if (!computes && v != kNoValue) mine.insert(readers[At(v)].begin(), readers[At(v)].end());
    }
    ir::ForEachUse(n, [&](ValueId v) {
      if (tangents_[At(v)].empty()) readers[At(v)].insert(mine.begin(), mine.end());
    });
  }
  for (std::size_t s = 0; s < saved; ++s) {
    const std::set<std::int32_t>& found = readers[At(backward.inputs[s].value)];
    readers_[s].assign(found.begin(), found.end());
    for (std::int32_t n : found) reads_saved_[At(n)] = true;
  }
  const auto came_from_forward = [&](ValueId v) {
    for (std::int32_t n : readers[At(v)]) reads_saved_[At(n)] = true;
  };
  for (const ir::ConstantTensor& c : backward.constants) {
    if (!backward.value(c.value).of_formula) came_from_forward(c.value);
  }
  for (std::size_t i = 0; i < backward.nodes.size(); ++i) {
    reads_saved_[i] = reads_saved_[i] || IsOfWriteIntoView(backward.nodes[i]);
  }
  for (const Node& n : backward.nodes) {  // run again from constants only
    if (n.phase != ir::Phase::kForward) continue;
    for (ValueId v : n.outputs) {
      if (v != kNoValue) came_from_forward(v);
    }
  }
}

bool TangentUse::Runs(const Node& node, const std::string& defined) const {
  bool runs = false;
  ir::ForEachUse(node, [&](ValueId v) { runs = runs || (!tangents_[At(v)].empty() && !IsLeftOut(v, defined)); });
  return runs;
}

bool TangentUse::IsLeftOut(ValueId value, const std::string& defined) const {
  const std::vector<bool>& mine = tangents_[At(value)];
  for (std::size_t t = 0; t < mine.size(); ++t) {
    if (mine[t] && defined[t] == '1') return false;
  }
  return !mine.empty();
}

int TangentUse::TermOf(const ir::Graph& backward, const Node& n, const std::string& defined) const {
  if (!ir::Is(n.op, ir::OpName::kAddTensor) || n.outputs.size() != 1) return -1;
  if (n.args[0].kind != ir::Arg::Kind::kValue || n.args[1].kind != ir::Arg::Kind::kValue) return -1;
  if (n.args[2].kind != ir::Arg::Kind::kConstant || !n.args[2].constant.isInt() || n.args[2].constant.toInt() != 1) {
    return -1;
  }
  const bool without_first = IsLeftOut(n.args[0].value, defined);
  if (without_first == IsLeftOut(n.args[1].value, defined)) return -1;
  const int term = without_first ? 1 : 0;
  const ir::Value& rest = backward.value(n.args[At(term)].value);
  const ir::Value& sum = backward.value(n.outputs[0]);
  return rest.dtype == sum.dtype && rest.sizes == sum.sizes && rest.device == sum.device ? term : -1;
}

void TangentUse::DropUndefined(ir::Graph& backward, const std::string& defined) const {
  std::vector<ValueId> term(backward.values.size());
  for (std::size_t v = 0; v < term.size(); ++v) term[v] = static_cast<ValueId>(v);
  std::vector<ValueId> in_its_place = term;
  for (Node& n : backward.nodes) {
    const int arg = TermOf(backward, n, defined);
    for (ir::Arg& a : n.args) {
      if (a.kind == ir::Arg::Kind::kValue) a.value = in_its_place[At(a.value)];
      for (ValueId& v : a.values) v = v == kNoValue ? v : in_its_place[At(v)];
    }
    if (arg < 0) continue;
    const ValueId sum = n.outputs[0];
    const ValueId rest = n.args[At(arg)].value;
    term[At(sum)] = term[At(rest)];
    if (EqualMetadata(backward.value(rest), backward.value(sum))) {
      in_its_place[At(sum)] = rest;
    } else if (ir::IsContiguous(backward.exprs, backward.value(sum))) {
      n.op = ir::RequireOp(ir::OpName::kClone);
      n.args = {ir::Arg::OfValue(rest), ir::Arg::Constant(static_cast<std::int64_t>(c10::MemoryFormat::Contiguous))};
    } else if (ir::IsDense(backward.exprs, backward.value(sum))) {
      // Else what is undefined would be computed, with zeros, of what was saved: that may be gone, or no number.
      n.op = LaidOut();
      n.args = {ir::Arg::OfValue(rest), ir::Arg::OfDims(backward.value(sum).strides)};
    }
  }
  for (ir::Output& o : backward.outputs) o.value = o.value == kNoValue ? o.value : term[At(o.value)];
}

}  // namespace framefuse
