#include "backends/fusion/fused_executable.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backends/cuda_runtime/engine.h"
#include "backends/fusion/decompose.h"
#include "backends/fusion/early_writes.h"
#include "backends/fusion/ending.h"
#include "backends/fusion/join_slices.h"
#include "backends/fusion/lift_views.h"
#include "backends/fusion/move_to_front.h"
#include "backends/fusion/number_operands.h"
#include "backends/fusion/open_biases.h"
#include "backends/fusion/pad_products.h"
#include "backends/fusion/planner.h"
#include "backends/fusion/pointwise.h"
#include "backends/fusion/probed.h"
#include "backends/fusion/reduction.h"
#include "backends/fusion/reuse_memory.h"
#include "backends/fusion/sharing.h"
#include "backends/fusion/sink_cats.h"
#include "backends/fusion/sink_views.h"
#include "backends/fusion/step.h"
#include "backends/fusion/step_uses.h"
#include "backends/fusion/why_not.h"
#include "backends/graph/collectives.h"
#include "backends/graph/operators.h"
#include "backends/passes/aliases.h"
#include "backends/passes/pass.h"
#include "backends/runtime/accuracy_probe.h"
#include "backends/runtime/aten_sequence.h"
#include "backends/runtime/cond_operator.h"
#include "backends/runtime/torch_error.h"
#include "common/indexed_vector.h"
#include "common/logging.h"
#include "common/status.h"
#include "common/trace.h"

namespace framefuse::fusion {
namespace {

using ir::kNoNode;
using ir::kNoValue;
using ir::NodeIndex;
using ir::ValueId;

// What a profiler shows around a kernel, which is no operator that it knows.
ABSL_ATTRIBUTE_COLD std::unique_ptr<at::RecordFunction> BeginRange(const Step& step) {
  const std::string name = step.RangeName();
  if (name.empty()) return nullptr;
  auto range = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  if (range->isActive()) range->before(name);
  return range;
}

void LogTimes(const std::string& graph, const std::vector<PhaseTime>& times) {
  if (!LogEnabled(LogArtifact::kPerf)) return;
  std::string text = absl::StrCat("fusion of ", graph);
  for (const PhaseTime& t : times) absl::StrAppendFormat(&text, "\n  %-32s %8.3f ms", t.name, t.milliseconds);
  FF_LOG(kPerf) << text;
}

absl::Status RunStep(const Step& step, CallState& call, bool profiled) {
  try {
    std::unique_ptr<at::RecordFunction> range;
    if (ABSL_PREDICT_FALSE(profiled)) range = BeginRange(step);
    return step.Run(call);
  } catch (...) {
    const std::vector<PlanGroup> groups = step.Explain();
    return TorchErrorStatus(std::current_exception(), groups.empty() ? "" : groups[0].description);
  }
}

}  // namespace

bool HasZerosWithoutMemory(const ir::Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const ir::Node& n) { return ir::Is(n.op, ir::OpName::k_Efficientzerotensor); });
}

FusedExecutable::FusedExecutable() = default;
FusedExecutable::~FusedExecutable() = default;

absl::StatusOr<std::unique_ptr<Executable>> FusedExecutable::Create(ir::Graph graph, const BackendOptions& options) {
  if (TheAccuracyProbe() && graph.functional) return MakeProbed(std::move(graph), options, &FusedExecutable::Make);
  return Make(std::move(graph), options);
}

absl::StatusOr<std::unique_ptr<Executable>> FusedExecutable::Make(ir::Graph graph, const BackendOptions& options) {
  FF_RETURN_IF_ERROR(PrepareConds(graph, "fuse"));
  if (!graph.functional || HasZerosWithoutMemory(graph)) return AtenSequence::Create(std::move(graph), options);
  auto made = std::unique_ptr<FusedExecutable>(new FusedExecutable);
  made->graph_ = std::move(graph);
  const absl::Status status = made->Build(options);
  if (absl::IsAborted(status)) {
    FF_LOG(kBugs) << MessageOf(status) << "; ATen operators run instead\n" << ir::Print(made->graph_);
    return AtenSequence::CreateRewritten(std::move(made->graph_));
  }
  FF_RETURN_IF_ERROR(status);
  return made;
}

absl::Status FusedExecutable::Build(const BackendOptions& options) {
  // The backend's own passes may have laid the graph out anew.
  static constexpr Pass kPasses[] = {{"number_operands", UseNumberOperands, /*lays_out=*/true},
                                     {"join_slices", JoinSlices, /*lays_out=*/true},
                                     {"decompose", Decompose, /*lays_out=*/true},
                                     {"pad_products", PadProducts, /*lays_out=*/true},
                                     {"open_biases", OpenBiases, /*lays_out=*/true},
                                     {"sink_views", SinkViews},
                                     {"lift_views", LiftViews},
                                     {"drop_views", DropViews},
                                     {"sink_cats", SinkCats},
                                     {"merge_common_subexpressions", MergeCommonSubexpressions},
                                     {"eliminate_dead_code", EliminateDeadCode}};
  std::vector<PhaseTime> times;
  FF_RETURN_IF_ERROR(RunPasses(graph_, kPasses, &times));
  const auto start = std::chrono::steady_clock::now();
  Planner planner(&graph_, options);
  if (!planner.complete()) return absl::AbortedError("fusion made a cycle of groups");
  const auto grouped = std::chrono::steady_clock::now();
  auto steps = planner.Plan();
  if (!steps.ok()) return steps.status();
  steps_ = *std::move(steps);
  if (TheAccuracyProbe()) {
    ProbeSteps(graph_, &steps_);
  } else if (const int reused = ReuseMemory(graph_, steps_); reused > 0) {
    FF_LOG(kFusion) << reused << (reused == 1 ? " result takes" : " results take") << " the memory of what dies";
  }
  using Milliseconds = std::chrono::duration<double, std::milli>;
  times.push_back({"grouping", Milliseconds(grouped - start).count()});
  times.push_back({"kernels", Milliseconds(std::chrono::steady_clock::now() - grouped).count()});
  LogTimes(graph_.name, times);
  const auto& nodes = graph_.nodes;
  // What has been said to other processes is not said again.
  if (std::any_of(nodes.begin(), nodes.end(), &ir::SpeaksToOthers)) first_write_ = 0;
  // Values die after the last step that reads them; inputs, too.
  std::vector<int> last(graph_.values.size(), -1);
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    for (ValueId v : steps_[s]->Reads()) last[static_cast<std::size_t>(v)] = static_cast<int>(s);
  }
  FindLastReads(last);
  for (const ir::Output& o : graph_.outputs) {
    if (o.value != kNoValue) last[static_cast<std::size_t>(o.value)] = -1;
  }
  FindLaidOut();
  if (TraceEnabled()) uses_ = std::make_unique<StepUses>(graph_.name, steps_.size());
  release_.resize(steps_.size());
  for (std::size_t v = 0; v < last.size(); ++v) {
    if (last[v] >= 0) release_[static_cast<std::size_t>(last[v])].push_back(static_cast<ValueId>(v));
  }
  return absl::OkStatus();
}

void FusedExecutable::FindLaidOut() {
  laid_out_.assign(graph_.outputs.size(), false);
  // Of an operator that stands for a kernel's node the result may be laid out otherwise.
  const std::vector<ir::NodeIndex> definitions = graph_.Definitions();
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    const ValueId v = graph_.outputs[i].value;
    const ir::NodeIndex by = v == kNoValue ? ir::kNoNode : definitions[static_cast<std::size_t>(v)];
    ReductionForm form;
    const ir::Node* n = by == ir::kNoNode ? nullptr : &graph_.nodes[static_cast<std::size_t>(by)];
    const bool kernels = n != nullptr && (IsPointwise(graph_, *n) || IsReduction(graph_, *n, &form));
    if (kernels && ir::IsDense(graph_.exprs, graph_.value(v))) {
      laid_out_[i] = true;
    }
  }
}

void FusedExecutable::FindLastReads(const std::vector<int>& last_read) {
  std::vector<int> outputs_of(graph_.values.size(), 0);
  for (const ir::Output& o : graph_.outputs) {
    if (o.value != kNoValue) ++outputs_of[static_cast<std::size_t>(o.value)];
  }
  for (const ir::Output& o : graph_.outputs) {
    const auto v = static_cast<std::size_t>(o.value);
    const bool alone = o.value != kNoValue && outputs_of[v] == 1;
    last_read_.push_back(alone ? static_cast<std::size_t>(std::max(last_read[v], 0)) : steps_.size());
  }
}

// The last step that may read the memory of `input`: through itself, a view, or an operator that returned its argument.
// Past the end if an output shares it.
std::size_t FusedExecutable::LastReader(ValueId input) const {
  std::set<ValueId> same = {input};
  for (const ir::Node& n : graph_.nodes) {
    ir::ForEachUse(n, [&](ValueId from) {
      if (!same.contains(from)) return;
      for (ValueId to : n.outputs) {
        if (to != kNoValue && MayShare(graph_, n, from, to)) same.insert(to);
      }
    });
  }
  for (const ir::Output& o : graph_.outputs) {
    if (same.contains(o.value)) return steps_.size();
  }
  std::size_t last = 0;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const std::vector<ValueId> reads = steps_[s]->Reads();
    if (std::any_of(reads.begin(), reads.end(), [&](ValueId v) { return same.contains(v); })) last = s;
  }
  return last;
}

void FusedExecutable::AllowOverwrites(absl::Span<const Overwrite> overwrites) {
  std::vector<int> outputs_of(graph_.values.size(), 0);
  for (const ir::Output& o : graph_.outputs) {
    if (o.value != kNoValue) ++outputs_of[static_cast<std::size_t>(o.value)];
  }
  std::size_t kernels = steps_.size();  // from here on there are only kernels
  while (kernels > 0 && steps_[kernels - 1]->IsKernel()) --kernels;
  for (const Overwrite& o : overwrites) {
    const ir::Input& input = graph_.inputs[static_cast<std::size_t>(o.input)];
    const ValueId result = graph_.outputs[static_cast<std::size_t>(o.output)].value;
    if (input.overlap_class != 0 || result == kNoValue || outputs_of[static_cast<std::size_t>(result)] != 1) continue;
    if (const std::size_t s = FindEarlyWrite(graph_, steps_, result, input.value); s < steps_.size()) {
      if (steps_[s]->WriteOver(result, input.value)) BeginWritesAt(s);
      continue;
    }
    const std::size_t last = LastReader(input.value);
    for (std::size_t s = std::max(kernels, last); s < steps_.size(); ++s) {
      if (!steps_[s]->WriteOver(result, input.value)) continue;
      BeginWritesAt(s);
      break;
    }
  }
}

void FusedExecutable::BeginWritesAt(std::size_t step) {
  first_write_ = std::min(first_write_, step);
  overwrites_ = true;
}

absl::Status FusedExecutable::Run(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                                  absl::Span<at::Tensor> outputs) const {
  IndexedVector<ValueId, at::Tensor> slots = SlotsFor(inputs);
  return Execute(&slots, symbols, outputs);
}

IndexedVector<ValueId, at::Tensor> FusedExecutable::SlotsFor(absl::Span<const at::Tensor> inputs) const {
  IndexedVector<ValueId, at::Tensor> slots(graph_.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) slots[graph_.inputs[i].value] = inputs[i];
  return slots;
}

absl::Status FusedExecutable::RunConsuming(absl::Span<at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                                           absl::Span<at::Tensor> outputs) const {
  IndexedVector<ValueId, at::Tensor> slots(graph_.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    slots[graph_.inputs[i].value] = std::move(inputs[i]);
  }
  return Execute(&slots, symbols, outputs);
}

absl::Status FusedExecutable::RunTelling(absl::Span<at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                                         absl::Span<at::Tensor> outputs, absl::Span<const std::size_t> order,
                                         absl::FunctionRef<void(std::size_t output)> made) const {
  IndexedVector<ValueId, at::Tensor> slots(graph_.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    slots[graph_.inputs[i].value] = std::move(inputs[i]);
  }
  std::size_t next = 0;
  const auto tell = [&](const CallState& call, std::size_t step) {
    for (; next < order.size() && last_read_[order[next]] <= step; ++next) {
      const std::size_t i = order[next];
      at::Tensor& slot = slots[graph_.outputs[i].value];
      if (!slot.defined()) break;
      FF_RETURN_IF_ERROR(LayOutResult(call, i, &slot));
      outputs[i] = std::move(slot);
      made(i);
    }
    return absl::OkStatus();
  };
  const AfterStep after = tell;
  return Execute(&slots, symbols, outputs, &after);
}

void FusedExecutable::GiveConstants(IndexedVector<ValueId, at::Tensor>* slots) const {
  for (const ir::ConstantTensor& c : graph_.constants) (*slots)[c.value] = c.tensor;
}

absl::Status FusedExecutable::Execute(IndexedVector<ValueId, at::Tensor>* slots, absl::Span<const std::int64_t> symbols,
                                      absl::Span<at::Tensor> outputs, const AfterStep* after) const {
  std::vector<std::int64_t> exprs;
  if (graph_.exprs.size() > 0) graph_.exprs.EvaluateAll(symbols, &exprs);
  GiveConstants(slots);
  CallState call{*slots, symbols, exprs};
  FF_RETURN_IF_ERROR(RunSteps(
      call, [](std::size_t) { return true; }, after));
  for (std::size_t i = 0; i < outputs.size(); ++i) FF_RETURN_IF_ERROR(GiveOutput(call, i, outputs));
  return absl::OkStatus();
}

ABSL_ATTRIBUTE_COLD absl::Status FusedExecutable::RunMeasured(std::size_t s, CallState& call, bool profiled) const {
  return uses_->Measure(s, *steps_[s], call, [&] { return RunStep(*steps_[s], call, profiled); });
}

template <typename Chosen>
absl::Status FusedExecutable::RunSteps(CallState& call, const Chosen& chosen, const AfterStep* after) const {
  const bool profiled = at::hasCallbacks();
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    if (!chosen(s)) continue;
    call.dying = uses_ == nullptr ? &release_[s] : nullptr;
    absl::Status status = uses_ == nullptr ? RunStep(*steps_[s], call, profiled) : RunMeasured(s, call, profiled);
    if (!status.ok()) {
      if (s < first_write_) MarkInputsUntouched(status);
      // Operators say themselves whether they came to the first write.
      if (s > first_write_ || (s == first_write_ && steps_[s]->IsKernel())) MarkInputsTouched(status);
      return status;
    }
    for (ValueId v : release_[s]) {
      if (!call.IsKept(v)) call.slots[v].reset();
    }
    if (after != nullptr) FF_RETURN_IF_ERROR((*after)(call, s));
  }
  return absl::OkStatus();
}

absl::Status FusedExecutable::GiveOutput(const CallState& call, std::size_t output,
                                         absl::Span<at::Tensor> outputs) const {
  const ValueId v = graph_.outputs[output].value;
  if (v == kNoValue || !call.slots[v].defined()) return absl::OkStatus();
  outputs[output] = call.slots[v];
  return LayOutResult(call, output, &outputs[output]);
}

class FusedExecutable::OwnEnding final : public Ending {
 public:
  OwnEnding(const FusedExecutable& executable, EndingPlan plan, const CallState& call)
      : executable_(executable),
        plan_(std::move(plan)),
        symbols_(call.symbols.begin(), call.symbols.end()),
        exprs_(call.exprs) {
    for (ValueId v : plan_.held) held_.push_back(call.slots[v]);
  }

  absl::Status Run(absl::Span<const at::Tensor> inputs, absl::Span<at::Tensor> outputs) const override {
    IndexedVector<ValueId, at::Tensor> slots = executable_.SlotsFor(inputs);
    executable_.GiveConstants(&slots);
    for (std::size_t i = 0; i < held_.size(); ++i) slots[plan_.held[i]] = held_[i];
    CallState call{slots, symbols_, exprs_, /*fresh=*/true};
    FF_RETURN_IF_ERROR(executable_.RunSteps(
        call, [&](std::size_t s) { return plan_.steps[s]; }, nullptr));
    for (std::size_t i : plan_.outputs) FF_RETURN_IF_ERROR(executable_.GiveOutput(call, i, outputs));
    return absl::OkStatus();
  }

 private:
  const FusedExecutable& executable_;
  const EndingPlan plan_;
  const std::vector<std::int64_t> symbols_, exprs_;
  std::vector<at::Tensor> held_;  // as plan_.held
};

absl::Status FusedExecutable::RunToEnding(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                                          absl::Span<at::Tensor> outputs, const std::vector<bool>& apart,
                                          std::unique_ptr<Ending>* ending) const {
  std::vector<std::int64_t> exprs;
  if (graph_.exprs.size() > 0) graph_.exprs.EvaluateAll(symbols, &exprs);
  EndingPlan plan;
  if (!overwrites_) plan = PlanEnding(graph_, steps_, apart, exprs);
  IndexedVector<ValueId, at::Tensor> slots = SlotsFor(inputs);
  GiveConstants(&slots);
  CallState call{slots, symbols, exprs, /*fresh=*/false, plan.kept.empty() ? nullptr : &plan.kept};
  FF_RETURN_IF_ERROR(RunSteps(
      call, [&](std::size_t s) { return plan.steps.empty() || !plan.steps[s]; }, nullptr));
  for (std::size_t i = 0; i < outputs.size(); ++i) FF_RETURN_IF_ERROR(GiveOutput(call, i, outputs));
  if (plan.steps.empty()) return absl::OkStatus();
  FF_LOG(kFusion) << plan.outputs.size() << (plan.outputs.size() == 1 ? " result is" : " results are")
                  << " made behind each replay";
  *ending = std::make_unique<OwnEnding>(*this, std::move(plan), call);
  return absl::OkStatus();
}

absl::Status FusedExecutable::LayOutResult(const CallState& call, std::size_t output, at::Tensor* t) const {
  if (!laid_out_[output]) return absl::OkStatus();
  const ir::Value& recorded = graph_.value(graph_.outputs[output].value);
  if (!t->defined() || t->dim() != static_cast<std::int64_t>(recorded.rank())) return absl::OkStatus();
  const auto stride = [&](std::size_t d) {
    const ir::Dim& s = recorded.strides[d];
    return s.is_constant() ? s.constant() : call.exprs[static_cast<std::size_t>(s.expr)];
  };
  bool same = t->numel() == 0;
  for (std::size_t d = 0; !same && d < recorded.rank(); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    if (t->size(dim) > 1 && t->stride(dim) != stride(d)) break;
    same = d + 1 == recorded.rank();
  }
  if (same || recorded.rank() == 0) return absl::OkStatus();
  std::vector<std::int64_t> strides;
  for (std::size_t d = 0; d < recorded.rank(); ++d) strides.push_back(stride(d));
  try {
    *t = at::empty_strided(t->sizes(), strides, t->options()).copy_(*t);
  } catch (...) {
    return TorchErrorStatus(std::current_exception(), "");
  }
  return absl::OkStatus();
}

std::vector<PlanGroup> FusedExecutable::Explain() const {
  std::vector<PlanGroup> out;
  for (const auto& step : steps_) {
    for (PlanGroup& group : step->Explain()) out.push_back(std::move(group));
  }
  return out;
}

}  // namespace framefuse::fusion
