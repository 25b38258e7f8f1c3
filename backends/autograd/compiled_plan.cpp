#include "backends/autograd/compiled_plan.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "backends/autograd/compiled_backward.h"
#include "backends/autograd/output_history.h"
#include "backends/autograd/partition.h"
#include "backends/passes/pass.h"
#include "backends/runtime/aten_sequence.h"
#include "backends/runtime/output_views.h"
#include "backends/runtime/recorded_executable.h"
#include "backends/runtime/torch_error.h"
#include "common/check.h"
#include "common/logging.h"
#include "common/status.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;
using ir::Graph;

std::size_t At(std::int32_t i) { return static_cast<std::size_t>(i); }

class Stopwatch {
 public:
  explicit Stopwatch(std::vector<PhaseTime>* times) : times_(times) {}
  void Lap(std::string name) {
    auto now = Clock::now();
    times_->push_back({std::move(name), std::chrono::duration<double, std::milli>(now - last_).count()});
    last_ = now;
  }
  void Skip() { last_ = Clock::now(); }  // what was timed in another way

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<PhaseTime>* times_;
  Clock::time_point last_ = Clock::now();
};

class CompiledPlan final : public Plan {
 public:
  CompiledPlan(std::string backend, const ExecutableFactory& factory, const BackendOptions& options)
      : factory_(options.mode == "reduce-overhead" ? RecordingFactory(factory) : factory), options_(options) {
    explanation_.backend = std::move(backend);
  }

  absl::Status Compile(Graph graph) {
    Stopwatch watch(&explanation_.phases);
    FF_RETURN_IF_ERROR(ir::Verify(graph));
    std::vector<ViewRecipe> recipes = MakeRecipes(graph);
    watch.Lap("verify");
    absl::StatusOr<bool> functional = Functionalize(graph);
    watch.Lap("functionalize");
    PlanOutputs(graph, std::move(recipes));
    if (absl::IsUnimplemented(functional.status()) && !graph.has_backward())
      return CompileRecorded(std::move(graph), watch);
    FF_RETURN_IF_ERROR(functional.status());
    DropRebuiltOutputs(graph);
    FF_RETURN_IF_ERROR(RunPasses(graph, StandardPasses(), &explanation_.phases));
    watch.Skip();
    FF_LOG(kAot) << "joint graph\n" << ir::Print(graph);
    return graph.has_backward() ? CompileTraining(std::move(graph), watch) : CompileForward(std::move(graph), watch);
  }

  absl::StatusOr<std::vector<at::Tensor>> Run(absl::Span<const at::Tensor> inputs,
                                              absl::Span<const std::int64_t> symbols) const override {
    FF_RET_CHECK(inputs.size() == input_count_) << inputs.size() << " inputs for " << input_count_;
    absl::InlinedVector<at::Tensor, 8> outputs(output_count_);
    {
      at::AutoDispatchBelowADInplaceOrView below;
      c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
      absl::Status status = forward_->Run(inputs, symbols, absl::MakeSpan(outputs));
      if (!status.ok()) {
        if (!writes_as_it_runs_ && !forward_->WritesInputs()) MarkInputsUntouched(status);
        return status;
      }
    }
    try {
      // First, so that a backward pass runs them last, as eager would what is older.
      for (std::int32_t o : spent_) SetSpentHistory(outputs[At(o)], inputs);
      if (history_ != nullptr) history_->Record(inputs, symbols, absl::MakeSpan(outputs));
      WriteBack(inputs, absl::MakeSpan(outputs));
      return UserOutputs(inputs, symbols, absl::MakeSpan(outputs));
    } catch (...) {
      return TorchErrorStatus(std::current_exception(), "");
    }
  }

  PlanExplanation Explain() const override {
    PlanExplanation explanation = explanation_;
    explanation.forward = forward_->Explain();
    if (backward_ != nullptr) explanation.backward = backward_->executable->Explain();
    return explanation;
  }

 private:
  struct UserOutput {
    std::int32_t output = 0;  // of the forward graph
    ir::OutputAlias alias = ir::OutputAlias::kFresh;
    std::int32_t alias_of = -1;  // input, or output of the forward graph
    bool requires_grad = false;
    bool grad_of_base = false;
    bool detached = false;
    bool defined = true;
    ViewRecipe recipe;
  };
  struct Mutation {
    std::int32_t input = 0;
    std::int32_t output = 0;  // of the forward graph
    bool without_grad = false;
  };

  // From the graph as captured: passes drop the nodes between a base and its view.
  static std::vector<ViewRecipe> MakeRecipes(const Graph& g) {
    std::vector<ViewRecipe> recipes(g.outputs.size());
    for (std::size_t i = 0; i < g.outputs.size(); ++i) {
      const ir::Output& o = g.outputs[i];
      if (o.value == ir::kNoValue) continue;
      if (o.alias == ir::OutputAlias::kViewOfInput)
        recipes[i] = ViewRecipe::Create(g, ValuesOfInput(g, o.alias_of), o.value);
      if (o.alias == ir::OutputAlias::kViewOfOutput) {
        recipes[i] = ViewRecipe::Create(g, {g.outputs[At(o.alias_of)].value}, o.value);
      }
    }
    return recipes;
  }

  // Their values are never looked at.
  void DropRebuiltOutputs(Graph& g) const {
    for (ir::Output& o : g.outputs) {
      if (o.role == ir::OutputRole::kUser && o.alias != ir::OutputAlias::kFresh) o.value = ir::kNoValue;
    }
  }

  void PlanOutputs(const Graph& g, std::vector<ViewRecipe> recipes) {
    for (const ir::Input& in : g.inputs) input_count_ += in.role != ir::InputRole::kTangent ? 1 : 0;
    std::vector<std::int32_t> first_output(g.values.size(), -1);
    for (std::size_t i = 0; i < g.outputs.size(); ++i) {
      const ir::Output& o = g.outputs[i];
      if (o.role == ir::OutputRole::kGradient) continue;
      std::int32_t index = output_count_++;
      forward_output_.resize(g.outputs.size(), -1);
      forward_output_[i] = index;
      if (o.role == ir::OutputRole::kMutatedInput) {
        mutations_.push_back({o.input, index, g.inputs[At(o.input)].mutated_without_grad});
      }
      if (o.role != ir::OutputRole::kUser) continue;
      UserOutput user{index, o.alias, o.alias_of, o.requires_grad, o.grad_of_base, o.detached, o.value != ir::kNoValue,
                      {}};
      if (i < recipes.size()) user.recipe = std::move(recipes[i]);
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
    PlanHistory(g);
  }

  static std::vector<ir::ValueId> ValuesOfInput(const Graph& g, std::int32_t input) {
    std::vector<ir::ValueId> values = {g.inputs[At(input)].value};
    for (const ir::Output& o : g.outputs) {
      if (o.role == ir::OutputRole::kMutatedInput && o.input == input) values.push_back(o.value);
    }
    return values;
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
        spent_.push_back(forward_output_[i]);
      } else if (fresh && o.requires_grad && !has_tangent[i]) {
        with_history_.push_back(forward_output_[i]);
      }
    }
  }

  absl::Status CompileRecorded(Graph graph, Stopwatch& watch) {
    mutations_.clear();  // its nodes write the inputs themselves
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
    FF_ASSIGN_OR_RETURN(forward_, factory_(std::move(graph), options_));
    AllowOverwrites();
    watch.Lap("compile");
    return absl::OkStatus();
  }

  absl::Status CompileTraining(Graph graph, Stopwatch& watch) {
    FF_ASSIGN_OR_RETURN(Partitioned parts, Partition(graph, options_));
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
    FF_ASSIGN_OR_RETURN(forward_, factory_(parts.forward, forward_options));
    AllowOverwrites();
    watch.Lap("compile forward");
    FF_ASSIGN_OR_RETURN(std::shared_ptr<const BackwardPlan> backward,
                        BackwardPlan::Create(std::move(graph), parts, factory_, options_));
    watch.Lap("compile backward");
    FF_ASSIGN_OR_RETURN(backward_, backward->FindVariant(backward->AllInputs()));
    history_ = std::make_unique<OutputHistory>(std::move(backward), with_history_, At(visible_outputs));
    return absl::OkStatus();
  }

  // What autograd does not see may be written in place.
  void AllowOverwrites() {
    std::vector<Overwrite> overwrites;
    for (const Mutation& m : mutations_) {
      auto has = [&m](const std::vector<std::int32_t>& list) {
        return std::find(list.begin(), list.end(), m.output) != list.end();
      };
      if (!has(with_history_) && !has(spent_)) overwrites.push_back({m.input, m.output});
    }
    if (!overwrites.empty()) forward_->AllowOverwrites(overwrites);
  }

  void WriteBack(absl::Span<const at::Tensor> inputs, absl::Span<at::Tensor> outputs) const {
    for (const Mutation& m : mutations_) {
      if (outputs[At(m.output)].is_same(inputs[At(m.input)])) {
        autograd::impl::bump_version(inputs[At(m.input)]);
        continue;
      }
      at::AutoGradMode mode(at::GradMode::is_enabled() && !m.without_grad);
      inputs[At(m.input)].copy_(outputs[At(m.output)]);
    }
  }

  std::vector<at::Tensor> UserOutputs(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                                      absl::Span<at::Tensor> outputs) const {
    std::vector<at::Tensor> results;
    results.reserve(user_outputs_.size());
    for (const UserOutput& u : user_outputs_) {
      if (!u.defined) {
        results.emplace_back();
        continue;
      }
      switch (u.alias) {
        case ir::OutputAlias::kFresh:
          results.push_back(outputs[At(u.output)]);
          break;
        case ir::OutputAlias::kInput:
          results.push_back(inputs[At(u.alias_of)]);
          break;
        case ir::OutputAlias::kOutput:
          results.push_back(outputs[At(u.alias_of)]);
          break;
        case ir::OutputAlias::kViewOfInput:
        case ir::OutputAlias::kViewOfOutput: {
          bool input = u.alias == ir::OutputAlias::kViewOfInput;
          results.push_back(View(u, input ? inputs[At(u.alias_of)] : outputs[At(u.alias_of)], symbols));
          // Another output may be a view of this one.
          outputs[At(u.output)] = results.back();
          break;
        }
      }
    }
    return results;
  }

  static at::Tensor View(const UserOutput& u, const at::Tensor& base, absl::Span<const std::int64_t> symbols) {
    at::AutoGradMode mode(at::GradMode::is_enabled() && u.requires_grad);
    at::Tensor view = u.recipe.Apply(base, symbols);
    bool inherits = view.requires_grad() && !u.requires_grad && !u.grad_of_base;
    return u.detached || inherits ? view.variable_data() : view;
  }

  const ExecutableFactory factory_;
  const BackendOptions options_;
  std::size_t input_count_ = 0;
  bool writes_as_it_runs_ = false;
  std::int32_t output_count_ = 0;
  std::vector<std::int32_t> forward_output_;
  std::vector<UserOutput> user_outputs_;
  std::vector<Mutation> mutations_;
  std::vector<std::int32_t> with_history_;
  std::vector<std::int32_t> spent_;
  std::unique_ptr<Executable> forward_;
  std::unique_ptr<OutputHistory> history_;
  const BackwardPlan::Variant* backward_ = nullptr;  // for all gradients; history_ keeps it
  PlanExplanation explanation_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Plan>> CompileWithAutograd(std::string backend, Graph graph,
                                                          const ExecutableFactory& factory,
                                                          const BackendOptions& options) {
  auto plan = std::make_shared<CompiledPlan>(std::move(backend), factory, options);
  FF_RETURN_IF_ERROR(plan->Compile(std::move(graph)));
  return plan;
}

}  // namespace framefuse
