#include "backends/fusion/probed.h"

#include <utility>

#include "backends/graph/recording_probe.h"
#include "backends/runtime/accuracy_probe.h"
#include "backends/runtime/cuda_graph_recorder.h"
#include "common/status.h"

namespace framefuse::fusion {
namespace {

using ir::kNoValue;
using ir::ValueId;

// What is recorded has no values yet.
EndOfProbe BeginProbe(const ProbedPiece& piece, absl::Span<const at::Tensor> inputs,
                      absl::Span<const std::int64_t> symbols) {
  if (IsRecording() || IsStreamRecorded()) return nullptr;
  return TheAccuracyProbe()(piece, inputs, symbols);
}

std::vector<at::Tensor> TensorsOf(const CallState& call, const std::vector<ValueId>& values) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(values.size());
  for (ValueId v : values) tensors.push_back(call.slots[v]);
  return tensors;
}

class ProbedStep final : public Step {
 public:
  ProbedStep(const ir::Graph& graph, std::unique_ptr<Step> step)
      : step_(std::move(step)), reads_(step_->Reads()), results_(step_->Results()) {
    const std::vector<PlanGroup> groups = step_->Explain();
    piece_.text = PieceText(graph, &reads_, results_);
    if (!groups.empty()) piece_.description = groups[0].description;
  }

  absl::Status Run(CallState& call) const override {
    const EndOfProbe end = BeginProbe(piece_, TensorsOf(call, reads_), call.symbols);
    absl::Status status;
    try {
      status = step_->Run(call);
    } catch (...) {
      if (end) end(TorchErrorStatus(std::current_exception(), ""), {});
      throw;
    }
    if (end) end(status, status.ok() ? TensorsOf(call, results_) : std::vector<at::Tensor>());
    return status;
  }
  // What the text reads besides stays alive for it.
  std::vector<ValueId> Reads() const override { return reads_; }
  std::vector<ValueId> Results() const override { return results_; }
  std::string RangeName() const override { return step_->RangeName(); }
  std::vector<PlanGroup> Explain() const override { return step_->Explain(); }
  bool IsKernel() const override { return step_->IsKernel(); }
  bool WriteOver(ValueId result, ValueId input) override { return step_->WriteOver(result, input); }

 private:
  std::unique_ptr<Step> step_;
  std::vector<ValueId> reads_, results_;
  ProbedPiece piece_;
};

class ProbedExecutable final : public Executable {
 public:
  ProbedExecutable(std::unique_ptr<Executable> executable, ProbedPiece piece, std::vector<std::size_t> made)
      : executable_(std::move(executable)), piece_(std::move(piece)), made_(std::move(made)) {}

  absl::Status Run(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                   absl::Span<at::Tensor> outputs) const override {
    const EndOfProbe end = BeginProbe(piece_, inputs, symbols);
    return Ended(end, executable_->Run(inputs, symbols, outputs), outputs);
  }
  absl::Status RunConsuming(absl::Span<at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                            absl::Span<at::Tensor> outputs) const override {
    const EndOfProbe end = BeginProbe(piece_, inputs, symbols);
    return Ended(end, executable_->RunConsuming(inputs, symbols, outputs), outputs);
  }
  void AllowOverwrites(absl::Span<const Overwrite> overwrites) override { executable_->AllowOverwrites(overwrites); }
  bool WritesInputs() const override { return executable_->WritesInputs(); }
  std::vector<PlanGroup> Explain() const override { return executable_->Explain(); }

 private:
  absl::Status Ended(const EndOfProbe& end, absl::Status status, absl::Span<at::Tensor> outputs) const {
    if (!end) return status;
    std::vector<at::Tensor> made;
    for (std::size_t i : made_) made.push_back(outputs[i]);
    end(status, made);
    return status;
  }

  std::unique_ptr<Executable> executable_;
  ProbedPiece piece_;
  std::vector<std::size_t> made_;  // outputs with a value
};

}  // namespace

void ProbeSteps(const ir::Graph& graph, std::vector<std::unique_ptr<Step>>* steps) {
  for (std::unique_ptr<Step>& step : *steps) {
    if (!step->RangeName().empty()) step = std::make_unique<ProbedStep>(graph, std::move(step));
  }
}

absl::StatusOr<std::unique_ptr<Executable>> MakeProbed(ir::Graph graph, const BackendOptions& options,
                                                       const ExecutableFactory& make) {
  std::vector<ValueId> reads, results;
  std::vector<std::size_t> made;
  for (const ir::Input& i : graph.inputs) reads.push_back(i.value);
  for (std::size_t o = 0; o < graph.outputs.size(); ++o) {
    if (graph.outputs[o].value == kNoValue) continue;
    made.push_back(o);
    results.push_back(graph.outputs[o].value);
  }
  const std::size_t inputs = reads.size();
  ProbedPiece piece{PieceText(graph, &reads, results), graph.name, true};
  auto executable = make(std::move(graph), options);
  if (!executable.ok()) {
    if (const EndOfProbe end = BeginProbe(piece, {}, {})) end(executable.status(), {});
    return executable.status();
  }
  if (reads.size() != inputs) return executable;  // one input stands twice in the graph
  return std::make_unique<ProbedExecutable>(*std::move(executable), std::move(piece), std::move(made));
}

}  // namespace framefuse::fusion
