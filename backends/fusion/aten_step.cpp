// Steps of ATen operators. See step.h.
#include <algorithm>
#include <set>

#include "backends/fusion/step.h"
#include "backends/graph/collectives.h"
#include "backends/graph/subgraph.h"
#include "backends/runtime/aten_sequence.h"
#include "common/index.h"
#include "common/status.h"

namespace framefuse::fusion {
namespace {

class AtenStep final : public Step {
 public:
  AtenStep(std::unique_ptr<AtenSequence> executable, std::vector<ir::NodeIndex> nodes, std::vector<ir::ValueId> inputs,
           std::vector<ir::ValueId> outputs, bool speaks)
      : executable_(std::move(executable)),
        nodes_(std::move(nodes)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        speaks_(speaks) {}

  absl::Status Run(CallState& call) const override {
    std::vector<at::Tensor> inputs, outputs(outputs_.size());
    inputs.reserve(inputs_.size());
    for (ir::ValueId v : inputs_) inputs.push_back(call.Take(v));
    if (over_ != ir::kNoValue) GiveToWrite(call, &inputs);
    FF_RETURN_IF_ERROR(executable_->RunConsuming(absl::MakeSpan(inputs), call.symbols, absl::MakeSpan(outputs)));
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      call.slots[outputs_[i]] = std::move(outputs[i]);
    }
    return absl::OkStatus();
  }
  std::vector<ir::ValueId> Reads() const override { return inputs_; }
  absl::Span<const ir::NodeIndex> Operators() const override { return nodes_; }
  bool WriteOver(ir::ValueId result, ir::ValueId input) override {
    const auto o = std::find(outputs_.begin(), outputs_.end(), result);
    if (o == outputs_.end()) return false;
    executable_->WriteOver(static_cast<std::size_t>(o - outputs_.begin()));
    if (speaks_) over_ = input;
    return true;
  }
  std::vector<PlanGroup> Explain() const override { return executable_->Explain(); }

 private:
  // A collective's result is row by row, and so must be what it is written over.
  void GiveToWrite(const CallState& call, std::vector<at::Tensor>* inputs) const {
    at::Tensor& t = (*inputs)[At(std::find(inputs_.begin(), inputs_.end(), over_) - inputs_.begin())];
    if (!call.MayTake(over_) || !t.is_contiguous()) t = t.clone(at::MemoryFormat::Contiguous);
  }

  std::unique_ptr<AtenSequence> executable_;
  std::vector<ir::NodeIndex> nodes_;
  std::vector<ir::ValueId> inputs_, outputs_;
  const bool speaks_;                // it is a collective
  ir::ValueId over_ = ir::kNoValue;  // its argument, if it writes that
};

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> MakeAtenStep(const ir::Graph& graph, const std::vector<ir::NodeIndex>& nodes,
                                                   const std::vector<ir::ValueId>& outputs) {
  ir::SubgraphBuilder builder(graph, "aten");
  std::set<ir::ValueId> made, constants;
  std::vector<ir::ValueId> inputs;
  for (const ir::ConstantTensor& c : graph.constants) constants.insert(c.value);
  for (ir::NodeIndex n : nodes) {
    const ir::Node& node = graph.nodes[static_cast<std::size_t>(n)];
    ir::ForEachUse(node, [&](ir::ValueId v) {
      if (made.contains(v) || constants.contains(v) || builder.Has(v)) return;
      builder.AddInput(v, ir::Input{});
      inputs.push_back(v);
    });
    builder.AddNode(node);
    made.insert(node.outputs.begin(), node.outputs.end());
  }
  for (ir::ValueId v : outputs) {
    ir::Output facts;
    facts.value = v;
    builder.AddOutput(facts);
  }
  auto executable = AtenSequence::CreateRewritten(builder.Take());
  if (!executable.ok()) return executable.status();
  const bool speaks = nodes.size() == 1 && ir::SpeaksToOthers(graph.nodes[At(nodes[0])]);
  return std::make_unique<AtenStep>(*std::move(executable), nodes, std::move(inputs), outputs, speaks);
}

}  // namespace framefuse::fusion
