#include "backends/autograd/values_of_written.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "backends/autograd/histories.h"
#include "backends/graph/operators.h"
#include "backends/graph/subgraph.h"
#include "backends/passes/aliases.h"
#include "backends/passes/rewrite.h"
#include "backends/runtime/differentiable_ops.h"
#include "common/index.h"

namespace framefuse {

using ir::kNoValue;
using ir::Node;
using ir::ValueId;

WrittenInputs::WrittenInputs(ir::Graph& joint)
    : g_(joint),
      old_(joint.inputs.size(), kNoValue),
      new_(joint.inputs.size(), kNoValue),
      before_(joint.inputs.size()) {
  const std::vector<ir::NodeIndex> definitions = g_.Definitions();
  for (const ir::Output& o : g_.outputs) {
    const bool computed =
        o.role == ir::OutputRole::kMutatedInput && o.value != kNoValue && definitions[At(o.value)] != ir::kNoNode;
    if (!computed || std::find(new_.begin(), new_.end(), o.value) != new_.end()) continue;
    new_[At(o.input)] = o.value;
    for (const Node* n = &g_.nodes[At(definitions[At(o.value)])]; n->history == ir::History::kCutWrite;) {
      const ir::NodeIndex made = definitions[At(n->args[0].value)];
      if (made == ir::kNoNode) break;
      before_[At(o.input)].push_back(n->args[0].value);
      n = &g_.nodes[At(made)];
    }
  }
}

std::vector<ValueId> WrittenInputs::Starts() const {
  std::vector<ValueId> starts;
  for (std::size_t i = 0; i < old_.size(); ++i) {
    for (const ValueId v : {old_[i], new_[i]}) {
      if (v != kNoValue) starts.push_back(v);
    }
    starts.insert(starts.end(), before_[i].begin(), before_[i].end());
  }
  return starts;
}

void WrittenInputs::CopyWhatBackwardReads() {
  const Aliases aliases(g_);
  std::vector<bool> root_used(g_.values.size(), false);
  for (const Node& n : g_.nodes) {
    if (n.phase != ir::Phase::kBackward) continue;
    ir::ForEachUse(n, [&](ValueId v) { root_used[At(aliases.RootOf(v))] = true; });
  }
  std::vector<bool> chosen;
  for (const ir::Input& in : g_.inputs) chosen.push_back(in.mutated && root_used[At(in.value)]);
  Copy(chosen);
}

void WrittenInputs::Copy(const std::vector<bool>& chosen) {
  std::vector<Node> copies;
  Replacements replacements(g_.values.size());
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (!chosen[i]) continue;
    const ValueId value = g_.inputs[i].value;
    ir::Value metadata = g_.value(value);
    metadata.storage = -1;
    Node clone;
    clone.op = ir::RequireOp(ir::OpName::kClone);
    clone.args = {ir::Arg::OfValue(value), ir::Arg::None()};
    old_[i] = g_.AddValue(std::move(metadata));
    clone.outputs = {old_[i]};
    replacements.Replace(value, old_[i]);
    copies.push_back(std::move(clone));
  }
  if (copies.empty()) return;
  for (Node& n : g_.nodes) replacements.Apply(n);
  g_.nodes.insert(g_.nodes.begin(), std::make_move_iterator(copies.begin()), std::make_move_iterator(copies.end()));
}

std::vector<bool> WrittenInputs::ReadBySecondDerivatives(const std::vector<ValueId>& saved) const {
  std::vector<bool> taken(g_.values.size(), false);
  const std::vector<bool> constant = ConstantValues(g_);
  for (ValueId v : saved) taken[At(v)] = constant[At(v)];
  for (const ir::Input& in : g_.inputs) taken[At(in.value)] = false;
  for (const ValueId v : Starts()) taken[At(v)] = true;
  ir::Graph joint = g_;
  CutHistories(joint, constant);
  MakeDifferentiable(joint);
  taken.resize(joint.values.size(), false);
  std::vector<ValueId> roots;
  for (const ir::Output& o : joint.outputs) {
    if (o.role == ir::OutputRole::kGradient) roots.push_back(o.value);
  }
  return CloseOver(joint, roots, taken).used;
}

bool WrittenInputs::CopyForSecondDerivatives(const std::vector<ValueId>& saved) {
  if (std::none_of(g_.inputs.begin(), g_.inputs.end(), [](const ir::Input& in) { return in.mutated; })) return false;
  read_ = ReadBySecondDerivatives(saved);
  std::vector<bool> chosen;
  for (const ir::Input& in : g_.inputs) chosen.push_back(in.mutated && read_[At(in.value)]);
  Copy(chosen);
  const bool any = std::find(chosen.begin(), chosen.end(), true) != chosen.end();
  if (any) read_.clear();
  return any;
}

std::vector<ValueId> WrittenInputs::NeededBesides(const std::vector<ValueId>& saved) const {
  if (std::none_of(g_.inputs.begin(), g_.inputs.end(), [](const ir::Input& in) { return in.mutated; })) return {};
  const std::vector<bool> read = read_.empty() ? ReadBySecondDerivatives(saved) : read_;
  std::vector<ValueId> needed;
  for (const ValueId v : Starts()) {
    if (read[At(v)] && std::find(saved.begin(), saved.end(), v) == saved.end()) needed.push_back(v);
  }
  return needed;
}

void WrittenInputs::Mark(SavedValue* saved) const {
  for (std::size_t i = 0; i < old_.size() && !saved->is_input; ++i) {
    const std::vector<ValueId>& before = before_[i];
    const bool is_old = old_[i] == saved->value;
    const bool is_new =
        new_[i] == saved->value || std::find(before.begin(), before.end(), saved->value) != before.end();
    if (!is_old && !is_new) continue;
    saved->of_written = static_cast<std::int32_t>(i);
    saved->is_new = is_new;
  }
}

}  // namespace framefuse
