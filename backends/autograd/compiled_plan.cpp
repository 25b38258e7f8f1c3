#include "backends/autograd/compiled_plan.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "backends/autograd/compiled_backward.h"
#include "backends/autograd/output_history.h"
#include "backends/autograd/partition.h"
#include "backends/autograd/user_outputs.h"
#include "backends/autograd/view_plans.h"
#include "backends/autograd/written_inputs.h"
#include "backends/graph/input_writes.h"
#include "backends/graph/subgraph.h"
#include "backends/passes/pass.h"
#include "backends/runtime/accuracy_probe.h"
#include "backends/runtime/aten_sequence.h"
#include "backends/runtime/background_executable.h"
#include "backends/runtime/cuda_graph_executable.h"
#include "backends/runtime/output_views.h"
#include "backends/runtime/segmented_executable.h"
#include "backends/runtime/stopwatch.h"
#include "backends/runtime/torch_error.h"
#include "backends/runtime/unbacked_outputs.h"
#include "common/check.h"
#include "common/config.h"
#include "common/coverage.h"
#include "common/index.h"
#include "common/logging.h"
#include "common/status.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;
using ir::Graph;

// What is traced or probed is made at once: it tells of its kernels while it is compiled.
ExecutableFactory FactoryFor(const BackendOptions& options, bool unbacked, const ExecutableFactory& factory) {
  ExecutableFactory own = options.mode == "reduce-overhead" && !unbacked ? RecordingFactory(factory) : factory;
  const bool told = options.keeps_text || TheAccuracyProbe() || !config().trace_dir.get().empty();
  return config().background && !told ? InBackground(std::move(own)) : own;
}

class CompiledPlan final : public Plan {
 public:
  // Sizes that a call brings about itself are not recorded.
  CompiledPlan(std::string backend, const ExecutableFactory& factory, const BackendOptions& options, bool unbacked)
      : factory_(FactoryFor(options, unbacked, factory)), options_(options) {
    explanation_.backend = std::move(backend);
  }

  absl::Status Compile(Graph graph, absl::Span<const Pass> own) {
    Stopwatch watch(&explanation_.phases);
    FF_RETURN_IF_ERROR(ir::Verify(graph));
    FF_RETURN_IF_ERROR(Annotate(VerifyMetadataInTests(graph), "as recorded"));
    std::vector<ViewPlan> views = PlanViews(graph);
    const std::vector<bool> read = ir::WrittenAndRead(graph);
    const std::vector<bool> renewed = ReadRenewed(graph);
    const CapturedReads reads = ReadsOf(graph);
    watch.Lap("verify");
    absl::StatusOr<bool> functional = Functionalize(graph);
    watch.Lap("functionalize");
    std::vector<bool> written;
    for (const ViewPlan& view : views) written.push_back(view.is_written);
    PlanOutputs(graph, std::move(views));
    for (Mutation& m : mutations_) {
      m.read = read[At(m.input)];
      m.renews = renewed[At(m.input)];
    }
    if (absl::IsUnimplemented(functional.status()) && !graph.has_backward() && unbacked_.empty())
      return CompileRecorded(std::move(graph), watch);
    FF_RETURN_IF_ERROR(functional.status());
    if (CountsKinds()) CountKind("pass", "functionalize", *functional);
    FF_RETURN_IF_ERROR(Annotate(VerifyMetadataInTests(graph), "after functionalize"));
    DropRebuiltOutputs(graph, written);
    FF_RETURN_IF_ERROR(RunPasses(graph, StandardPasses(), &explanation_.phases));
    FF_RETURN_IF_ERROR(RunPasses(graph, own, &explanation_.phases));
    watch.Skip();
    FF_LOG(kAot) << "joint graph\n" << ir::Print(graph);
    if (!graph.has_backward()) return CompileForward(std::move(graph), watch);
    return CompileTraining(std::move(graph), reads, watch);
  }

  absl::StatusOr<std::vector<at::Tensor>> Run(absl::Span<const at::Tensor> inputs,
                                              absl::Span<std::int64_t> symbols) const override {
    FF_RET_CHECK(inputs.size() == input_count_) << inputs.size() << " inputs for " << input_count_;
    absl::InlinedVector<at::Tensor, 8> outputs(output_count_);
    {
      at::AutoDispatchBelowADInplaceOrView below;
      c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
      absl::Status status = CheckViews(ir::OutputAlias::kViewOfInput, inputs, symbols);
      if (!status.ok()) {
        MarkInputsUntouched(status);
        return status;
      }
      const std::vector<ir::KeptMemory> kept = Keep(inputs);
      status = forward_->Run(inputs, symbols, absl::MakeSpan(outputs));
      if (status.ok()) status = unbacked_.Take(outputs, symbols);
      if (status.ok()) status = CheckViews(ir::OutputAlias::kViewOfOutput, outputs, symbols);
      if (!status.ok()) {
        for (const ir::KeptMemory& memory : kept) memory.PutBack();
        const bool all_kept = !kept.empty() && kept.size() == recorded_writes_.size();
        if (writes_as_it_runs_ ? all_kept : !forward_->WritesInputs()) MarkInputsUntouched(status);
        return status;
      }
    }
    std::optional<SeenOutputs> seen;
    try {
      // First, so that a backward pass runs them last, as eager would what is older.
      for (const Spent& spent : spent_) {
        absl::InlinedVector<at::Tensor, 4> behind;
        for (std::int32_t i : spent.inputs) behind.push_back(inputs[At(i)]);
        SetSpentHistory(outputs[At(spent.output)], behind, spent.function);
      }
      // Before anything is saved: what the backward reads has been counted up in eager when it was saved.
      for (const auto& [output, version] : counted_) SetVersion(outputs[At(output)], version);
      seen.emplace(*this, inputs, symbols, absl::MakeSpan(outputs));
      if (history_ != nullptr) {
        history_->Record(
            inputs, symbols, absl::MakeSpan(outputs), [&](std::int32_t o) { return seen->Get(o); },
            [&] { seen->WriteTogether(); });
      }
      for (std::int32_t o : inference_) outputs[At(o)] = MadeInInferenceMode(outputs[At(o)], backward_ != nullptr);
      return seen->All();
    } catch (...) {
      absl::Status status = TorchErrorStatus(std::current_exception(), "");
      if (seen && at::SavedTensorDefaultHooks::get_hooks().has_value()) {
        MarkRaisedByHook(status);
        seen->WriteAll();  // in eager before the last tensor was saved
      }
      return status;
    }
  }

  PlanExplanation Explain() const override {
    PlanExplanation explanation = explanation_;
    explanation.forward = forward_->Explain();
    if (backward_ != nullptr) explanation.backward = backward_->executable->Explain();
    return explanation;
  }

 private:
  struct Spent {
    std::int32_t output = 0;           // of the forward graph
    std::vector<std::int32_t> inputs;  // that it was computed from
    SpentFunction function;
  };

  // By input.
  static std::vector<bool> ReadRenewed(const Graph& g) {
    std::vector<bool> renewed;
    for (const ir::Input& in : g.inputs) {
      const bool is_written = g.has_backward() && in.mutated_without_grad && !in.mutated_uncounted;
      renewed.push_back(is_written && ir::RenewedReadsOf(g, g.value(in.value).storage).behind);
    }
    return renewed;
  }

  // Their values are never looked at.
  // But for views that others were computed with, or that are written: a second derivative comes to them.
  static void DropRebuiltOutputs(Graph& g, const std::vector<bool>& written) {
    std::vector<bool> has_tangent(g.outputs.size(), false);
    for (const ir::Input& in : g.inputs) {
      if (in.role == ir::InputRole::kTangent) has_tangent[At(in.tangent_of)] = true;
    }
    for (std::size_t i = 0; i < g.outputs.size(); ++i) {
      ir::Output& o = g.outputs[i];
      const bool rebuilt = o.role == ir::OutputRole::kUser && o.alias != ir::OutputAlias::kFresh;
      if (rebuilt && !(ir::IsView(o) && (has_tangent[i] || (g.has_backward() && written[i])))) o.value = ir::kNoValue;
    }
  }

  void PlanOutputs(const Graph& g, std::vector<ViewPlan> views) {
    for (const ir::Input& in : g.inputs) input_count_ += in.role != ir::InputRole::kTangent ? 1 : 0;
    std::vector<std::int32_t> first_output(g.values.size(), -1);
    for (std::size_t i = 0; i < g.outputs.size(); ++i) {
      const ir::Output& o = g.outputs[i];
      if (o.role == ir::OutputRole::kGradient) continue;
      std::int32_t index = output_count_++;
      if (o.version > 0 && o.alias == ir::OutputAlias::kFresh) counted_.emplace_back(index, o.version);
      if (o.inference) inference_.push_back(index);
      forward_output_.resize(g.outputs.size(), -1);
      forward_output_[i] = index;
      if (o.role == ir::OutputRole::kMutatedInput) {
        const ir::Input& in = g.inputs[At(o.input)];
        mutations_.push_back({o.input, index, in.mutated_without_grad, in.mutated_uncounted, false, false, o.grad_fn});
      }
      if (o.role == ir::OutputRole::kUnbacked) {
        unbacked_.Add(index, o, g.exprs.symbols()[At(o.symbol)].type);
      }
      if (o.role != ir::OutputRole::kUser) continue;
      UserOutput user = PlannedAs(o, index);
      if (i < views.size()) user.recipe = std::move(views[i].recipe);
      user.renewed = user.renewed && !user.recipe.EndsAsStrided();
      if (i < views.size() && views[i].of_output >= 0) {
        user.alias = ir::OutputAlias::kViewOfOutput;
        user.alias_of = views[i].of_output;
      }
      if (o.value != ir::kNoValue) {
        // The same value twice is the same tensor twice.
        std::int32_t& first = first_output[At(o.value)];
        if (o.alias == ir::OutputAlias::kFresh && first >= 0) {
          user.alias = ir::OutputAlias::kOutput;
          user.alias_of = first;
        }
        if (o.alias == ir::OutputAlias::kFresh && first < 0) first = static_cast<std::int32_t>(i);
      }
      user_outputs_.push_back(std::move(user));
    }
    for (UserOutput& u : user_outputs_) {
      bool of_output = u.alias == ir::OutputAlias::kViewOfOutput || u.alias == ir::OutputAlias::kOutput;
      if (of_output) u.alias_of = forward_output_[At(u.alias_of)];
    }
    mutation_of_.assign(At(output_count_), -1);
    view_of_.assign(At(output_count_), -1);
    for (std::size_t m = 0; m < mutations_.size(); ++m) {
      mutation_of_[At(mutations_[m].output)] = static_cast<std::int32_t>(m);
    }
    for (std::size_t u = 0; u < user_outputs_.size(); ++u) {
      const UserOutput& user = user_outputs_[u];
      const bool is_view = user.alias == ir::OutputAlias::kViewOfInput || user.alias == ir::OutputAlias::kViewOfOutput;
      if (is_view && user.defined) view_of_[At(user.output)] = static_cast<std::int32_t>(u);
    }
    PlanHistory(g);
  }

  // Outputs that get the backward node as grad_fn: those with tangents, in their order, then those that only say so.
  void PlanHistory(const Graph& g) {
    std::vector<bool> has_tangent(g.outputs.size(), false);
    for (const ir::Input& in : g.inputs) {
      if (in.role != ir::InputRole::kTangent) continue;
      has_tangent[At(in.tangent_of)] = true;
      with_history_.push_back(forward_output_[At(in.tangent_of)]);
    }
    for (std::size_t i = 0; i < g.outputs.size(); ++i) {
      const ir::Output& o = g.outputs[i];
      bool fresh = o.alias == ir::OutputAlias::kFresh && o.value != ir::kNoValue && o.role == ir::OutputRole::kUser;
      if (o.spent) {
        spent_.push_back({forward_output_[i], ir::InputsNeededFor(g, o.value), {o.grad_fn, o.underivable}});
      } else if (fresh && o.requires_grad && !has_tangent[i]) {
        with_history_.push_back(forward_output_[i]);
      }
    }
  }

  // Views that may not fit their memory are made once before anything is written.
  absl::Status CheckViews(ir::OutputAlias alias, absl::Span<const at::Tensor> bases,
                          absl::Span<const std::int64_t> symbols) const {
    for (const UserOutput& u : user_outputs_) {
      if (u.alias != alias || !u.recipe.MayThrow() || !bases[At(u.alias_of)].defined()) continue;
      try {
        u.recipe.Apply(bases[At(u.alias_of)], symbols);
      } catch (...) {
        return TorchErrorStatus(std::current_exception(), "");
      }
    }
    return absl::OkStatus();
  }

  // What a graph that writes as it runs may have written when one of its operators raises.
  std::vector<ir::KeptMemory> Keep(absl::Span<const at::Tensor> inputs) const {
    std::vector<ir::KeptMemory> kept;
    for (const auto& [input, write] : recorded_writes_) {
      if (inputs[input].layout() == c10::kStrided) kept.emplace_back(inputs[input], write.whole);
    }
    return kept;
  }

  absl::Status CompileRecorded(Graph graph, Stopwatch& watch) {
    bool raises = false;
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
      if (!graph.inputs[i].mutated) continue;
      const ir::InputWrite write = ir::WriteOf(graph, graph.value(graph.inputs[i].value).storage);
      recorded_writes_.emplace_back(i, write);
      raises = raises || write.raises;  // before the write, too: the inputs are known to be as they were
    }
    if (!raises) recorded_writes_.clear();
    mutations_.clear();  // its nodes write the inputs themselves
    mutation_of_.assign(mutation_of_.size(), -1);
    writes_as_it_runs_ = true;
    Graph copy = graph;
    absl::StatusOr<std::unique_ptr<Executable>> made = factory_(std::move(graph), options_);
    if (!made.ok()) made = AtenSequence::Create(std::move(copy), options_);
    FF_RETURN_IF_ERROR(made.status());
    forward_ = *std::move(made);
    watch.Lap("compile");
    return absl::OkStatus();
  }

  absl::Status CompileForward(Graph graph, Stopwatch& watch) {
    if (options_.keeps_text) explanation_.forward_graph = ir::Print(graph);
    FF_ASSIGN_OR_RETURN(forward_, MakeForward(std::move(graph), options_));
    AllowOverwrites({});
    watch.Lap("compile");
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Executable>> MakeForward(Graph graph, const BackendOptions& options) const {
    return unbacked_.empty() ? factory_(std::move(graph), options)
                             : SegmentedExecutable::Create(graph, factory_, options);
  }

  absl::Status CompileTraining(Graph graph, const CapturedReads& reads, Stopwatch& watch) {
    std::vector<std::pair<std::size_t, ir::ValueId>> views;  // no forward makes them
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      if (ir::IsView(graph.outputs[i])) views.emplace_back(i, std::exchange(graph.outputs[i].value, ir::kNoValue));
    }
    FF_ASSIGN_OR_RETURN(Partitioned parts, Partition(std::move(graph), options_));
    for (const auto& [output, value] : views) parts.joint.outputs[output].value = value;
    AddReads(reads, &parts);
    watch.Lap("partition");
    if (options_.keeps_text || LogEnabled(LogArtifact::kAot)) {
      explanation_.forward_graph = ir::Print(parts.forward);
      explanation_.backward_graph = ir::Print(parts.backward);
    }
    explanation_.saved_bytes = parts.saved_bytes;
    FF_LOG(kAot) << "saved for backward: " << parts.saved.size() << " values, " << parts.saved_bytes
                 << " bytes of intermediates; " << parts.recomputed_nodes << " nodes run again\nforward graph\n"
                 << explanation_.forward_graph << "backward graph\n"
                 << explanation_.backward_graph;
    std::int32_t visible_outputs = output_count_;
    output_count_ = static_cast<std::int32_t>(parts.forward.outputs.size());
    BackendOptions forward_options = options_;
    forward_options.first_kept_output = visible_outputs;
    FF_ASSIGN_OR_RETURN(forward_, MakeForward(parts.forward, forward_options));
    AllowOverwrites(parts.saved);
    watch.Lap("compile forward");
    unbacked_.WatchGuessesOf(parts.joint);
    FF_ASSIGN_OR_RETURN(std::shared_ptr<const BackwardPlan> backward,
                        BackwardPlan::Create(std::move(parts.joint), parts, factory_, options_));
    watch.Lap("compile backward");
    FF_ASSIGN_OR_RETURN(backward_, backward->FindVariant(backward->AllInputs()));
    std::vector<OutputHistory::Written> written;
    for (const Mutation& m : mutations_) written.push_back({m.output, m.read, m.renews ? m.input : -1});
    std::vector<OutputHistory::View> seen = ViewsInTurn(user_outputs_, forward_output_, backward->joint());
    std::vector<OutputHistory::ViewResult> results;
    for (std::size_t r = 0; r < backward->results().size(); ++r) {
      const std::int32_t output = backward->results()[r];
      if (ir::IsView(backward->joint().outputs[At(output)])) results.push_back({r, forward_output_[At(output)]});
    }
    history_ = std::make_unique<OutputHistory>(std::move(backward), with_history_, At(visible_outputs),
                                               std::move(written), std::move(seen), std::move(results));
    return absl::OkStatus();
  }

  // What autograd does not see may be written in place. A saved tensor's version is compared with the one that it had
  // when it was saved, and eager's operators have counted up an input's by as many as they wrote.
  void AllowOverwrites(absl::Span<const SavedValue> saved) {
    std::vector<Overwrite> overwrites;
    for (const Mutation& m : mutations_) {
      auto has = [&m](const std::vector<std::int32_t>& list) {
        return std::find(list.begin(), list.end(), m.output) != list.end();
      };
      const bool is_saved = std::any_of(saved.begin(), saved.end(),
                                        [&m](const SavedValue& s) { return !s.is_input && s.index == m.output; });
      const bool is_spent =
          std::any_of(spent_.begin(), spent_.end(), [&m](const Spent& spent) { return spent.output == m.output; });
      if (!has(with_history_) && !is_spent && !is_saved) overwrites.push_back({m.input, m.output});
    }
    if (!overwrites.empty()) forward_->AllowOverwrites(overwrites);
  }

  // What users see of one run: written inputs and rebuilt views, each done once.
  class SeenOutputs {
   public:
    SeenOutputs(const CompiledPlan& plan, absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                absl::Span<at::Tensor> outputs)
        : plan_(plan), inputs_(inputs), symbols_(symbols), outputs_(outputs), written_(plan.mutations_.size(), false) {
      // A graph that runs as recorded makes them too, below autograd.
      for (std::size_t o = 0; o < plan.view_of_.size(); ++o) {
        if (plan.view_of_[o] >= 0) outputs_[o].reset();
      }
    }

    // For an output of the forward graph: the input that it is written to, or the view that stands for it.
    at::Tensor Get(std::int32_t output) {
      if (const std::int32_t m = plan_.mutation_of_[At(output)]; m >= 0) {
        WriteBack(At(m));
        return inputs_[At(plan_.mutations_[At(m)].input)];
      }
      const std::int32_t view = plan_.view_of_[At(output)];
      if (view >= 0 && !outputs_[At(output)].defined()) Rebuild(plan_.user_outputs_[At(view)]);
      return outputs_[At(output)];
    }

    void WriteTogether() { WriteBackTogether(plan_.mutations_, inputs_, outputs_, absl::MakeSpan(written_)); }

    void WriteAll() {
      WriteTogether();
      for (std::size_t m = 0; m < plan_.mutations_.size(); ++m) WriteBack(m);
    }

    std::vector<at::Tensor> All() {
      WriteAll();
      std::vector<at::Tensor> results;
      results.reserve(plan_.user_outputs_.size());
      for (const UserOutput& u : plan_.user_outputs_) {
        if (!u.defined) {
          results.emplace_back();
        } else if (u.alias == ir::OutputAlias::kInput) {
          results.push_back(inputs_[At(u.alias_of)]);
        } else {
          results.push_back(Get(u.alias == ir::OutputAlias::kOutput ? u.alias_of : u.output));
        }
      }
      return results;
    }

   private:
    void WriteBack(std::size_t m) {
      if (written_[m]) return;
      written_[m] = true;
      const Mutation& mutation = plan_.mutations_[m];
      framefuse::WriteBack(mutation, inputs_[At(mutation.input)], outputs_[At(mutation.output)]);
    }

    void Rebuild(const UserOutput& u) {
      const bool of_input = u.alias == ir::OutputAlias::kViewOfInput;
      for (std::size_t m = 0; of_input && m < plan_.mutations_.size(); ++m) {
        if (plan_.mutations_[m].input == u.alias_of) WriteBack(m);
      }
      outputs_[At(u.output)] = MakeView(u, of_input ? inputs_[At(u.alias_of)] : Get(u.alias_of), symbols_, &lists_);
    }

    const CompiledPlan& plan_;
    absl::Span<const at::Tensor> inputs_;
    absl::Span<const std::int64_t> symbols_;
    absl::Span<at::Tensor> outputs_;
    absl::InlinedVector<bool, 8> written_;
    ListsOfViews lists_;
  };

  const ExecutableFactory factory_;
  const BackendOptions options_;
  std::size_t input_count_ = 0;
  bool writes_as_it_runs_ = false;
  std::vector<std::pair<std::size_t, ir::InputWrite>> recorded_writes_;  // of a graph that does, if it may raise
  std::int32_t output_count_ = 0;
  std::vector<std::int32_t> forward_output_;
  std::vector<UserOutput> user_outputs_;
  std::vector<Mutation> mutations_;
  std::vector<std::int32_t> mutation_of_;  // by output of the forward graph; -1: none
  std::vector<std::int32_t> view_of_;      // likewise, of user_outputs_
  std::vector<std::int32_t> with_history_;
  std::vector<Spent> spent_;
  UnbackedOutputs unbacked_;
  std::vector<std::int32_t> inference_;                         // outputs of the forward graph that inference mode made
  std::vector<std::pair<std::int32_t, std::int32_t>> counted_;  // outputs of the forward graph, and their versions
  std::unique_ptr<Executable> forward_;
  std::unique_ptr<OutputHistory> history_;
  const BackwardPlan::Variant* backward_ = nullptr;  // for all gradients; history_ keeps it
  PlanExplanation explanation_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Plan>> CompileWithAutograd(std::string backend, Graph graph,
                                                          const ExecutableFactory& factory,
                                                          const BackendOptions& options, absl::Span<const Pass> own) {
  auto plan = std::make_shared<CompiledPlan>(std::move(backend), factory, options, graph.has_unbacked());
  FF_RETURN_IF_ERROR(plan->Compile(std::move(graph), own));
  return plan;
}

}  // namespace framefuse
