// The end of a recording: outputs (output_aliases.cpp), mutated inputs, gradients of inputs, the backward phase, and
// the inputs that are used after all.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "backends/graph/equal_sizes.h"
#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/counted_reads.h"
#include "symbolic/tracing/made_leaves.h"
#include "symbolic/tracing/output_aliases.h"
#include "symbolic/tracing/pass_order.h"
#include "symbolic/tracing/record_backward.h"
#include "symbolic/tracing/state.h"

namespace framefuse::tracing {
namespace {

class Closing {
 public:
  Closing(Recorder& recorder, std::vector<InputRecord>& inputs, std::vector<at::Tensor> outputs,
          OriginProvider* origins)
      : recorder_(recorder),
        graph_(recorder.graph()),
        inputs_(inputs),
        tensors_(std::move(outputs)),
        origins_(origins),
        graph_input_(inputs.size(), -1) {}

  absl::StatusOr<TracedGraph> Run(absl::Span<const at::Tensor> of_functions, bool for_backward) {
    result_.num_outputs = static_cast<int>(tensors_.size());
    FindWrites();
    if (absl::Status s = CompareInputs(); !s.ok()) return s;
    if (absl::Status s = CollectGeometryWrites(); !s.ok()) return s;
    if (absl::Status s = DescribeOutputs(recorder_, inputs_, tensors_, &hidden_); !s.ok()) return s;
    if (absl::Status s = CheckAskedForGrad(); !s.ok()) return s;
    AddMutatedOutputs();
    AddUnbackedOutputs();
    for (const int i : mutated_) {
      const InputRecord& r = inputs_[static_cast<std::size_t>(i)];
      if (r.requires_grad && !r.fake.requires_grad())
        return Fail(BreakKind::kMutation, "detach_", "of a written input");
    }
    const auto rebased = [this](int i) { return mutated_output_.contains(i); };
    if (absl::Status s = CheckPartedReads(recorder_, inputs_, rebased); !s.ok()) return s;
    if (for_backward) {
      AddResultsOfFunctions(graph_, of_functions, &hidden_);
      const CountedReads counted(recorder_, inputs_, tensors_);
      if (absl::Status s = RecordBackward(); !s.ok()) return s;
    }
    FindNamedPlaces();
    SelectInputs();
    result_.places = ResolveOrigins(graph_, origins_);
    ir::ExprTable of_sizes = graph_.exprs;  // SymInts are still alive
    DeferFacts();
    ir::JoinEqualSizes(graph_, recorder_.sizes().facts());
    if (absl::Status s = ir::Verify(graph_); !s.ok()) return s;
    result_.graph = std::make_shared<ir::Graph>(std::move(graph_));
    graph_.exprs = std::move(of_sizes);
    return std::move(result_);
  }

 private:
  absl::Status Fail(BreakKind kind, const std::string& context, const std::string& explanation) {
    recorder_.SetPendingBreak({kind, context, explanation, {}});
    return absl::FailedPreconditionError(context + ": " + explanation);
  }
  static ir::ValueId ValueOf(const at::Tensor& t) { return AsFake(t)->value(); }
  ir::StorageId StorageOf(ir::ValueId v) const { return graph_.value(v).storage; }

  // Differences between each input's fake and how it was at entry.
  absl::Status CompareInputs() {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      InputRecord& r = inputs_[i];
      const std::string& name = r.name.empty() ? "an input" : r.name;
      const bool reshaped = recorder_.writes().CountGeometry(AsFake(r.fake)) > 0;
      if ((ValueOf(r.fake) != r.value && !reshaped) || r.fake.storage().unsafeGetStorageImpl() != r.storage) {
        return Fail(BreakKind::kMetadataMutation, name, "the data of an input is replaced");
      }
      const bool rebased = GradientFunction(r.fake) != r.gradient_function;
      if (r.fake.requires_grad() != r.requires_grad && !rebased) {
        const bool asked = r.fake.requires_grad() && !IsWritten(StorageOf(r.value)) && r.input_index >= 0;
        if (!asked) return Fail(BreakKind::kHiddenState, name, "requires_grad of an input is changed");
        r.requires_grad = r.asked_for_grad = true;
        graph_.value(r.value).requires_grad = true;
      }
      if (rebased && !IsWritten(StorageOf(r.value))) {
        return Fail(BreakKind::kHiddenState, name, "the autograd history of an input is changed");
      }
      const char* const why = WhyHooksTell(r.real, r.fake, r.history, IsWritten(StorageOf(r.value)));
      if (why != nullptr) return Fail(BreakKind::kHiddenState, name, why);
      if (absl::Status s = CompareGradient(static_cast<int>(i)); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  // In the end it has the sizes and strides again that it came with.
  static bool IsAsItWas(const InputRecord& r) {
    if (r.fake.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return false;
    return r.fake.sizes() == r.real.sizes() && r.fake.strides() == r.real.strides() &&
           r.fake.storage_offset() == r.real.storage_offset();
  }

  // They are done when the graph has run: nothing may be saved, written or handed out by then that could tell.
  absl::Status CollectGeometryWrites() {
    for (const GeometryWrite& w : recorder_.writes().geometry()) {
      const auto is_written = [&](const InputRecord& r) { return AsFake(r.fake) == w.input; };
      const auto r = std::find_if(inputs_.begin(), inputs_.end(), is_written);
      if (r != inputs_.end() && IsWritten(StorageOf(r->value)) && IsAsItWas(*r)) continue;
      if (r == inputs_.end() || r->input_index < 0 || r->requires_grad || IsWritten(StorageOf(r->value))) {
        return Fail(BreakKind::kMetadataMutation, w.method, "sizes or storage of a tensor are replaced in place");
      }
      result_.geometry_effects.push_back({r->input_index, w.method, w.arguments});
    }
    return absl::OkStatus();
  }

  // The graph runs on inputs that require grad already: nothing else may tell when they began to.
  absl::Status CheckAskedForGrad() {
    const auto asked = [this](std::int32_t i) { return inputs_[static_cast<std::size_t>(i)].asked_for_grad; };
    for (const ir::Output& o : graph_.outputs) {
      if (o.alias == ir::OutputAlias::kViewOfInput && asked(o.alias_of)) {
        return Fail(BreakKind::kHiddenState, "an input", "requires_grad_() of an input, and a view of it");
      }
    }
    for (const InputRecord& r : inputs_) {
      for (const InputRecord& other : inputs_) {
        if (!r.asked_for_grad || &r == &other || StorageOf(r.value) != StorageOf(other.value)) continue;
        return Fail(BreakKind::kHiddenState, "an input", "requires_grad_() of an input, and another one in its memory");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CompareGradient(int i) {
    InputRecord& r = inputs_[static_cast<std::size_t>(i)];
    const at::Tensor& now = r.fake.unsafeGetTensorImpl()->grad();
    const at::Tensor before = r.gradient < 0 ? at::Tensor() : inputs_[static_cast<std::size_t>(r.gradient)].fake;
    if (now.defined() ? before.defined() && now.is_same(before) : !before.defined()) return absl::OkStatus();
    if (HasGradientHooks(r.real)) {
      return Fail(BreakKind::kHiddenState, r.name, "a gradient is accumulated into a tensor that has hooks");
    }
    if (r.gradient_of >= 0) return Fail(BreakKind::kHiddenState, r.name, "the gradient of a gradient is changed");
    gradient_changed_.push_back(i);
    GradientEffect effect{r.input_index, -1};
    if (now.defined()) {
      if (AsFake(now) == nullptr) return Fail(BreakKind::kRealTensor, r.name, "an untraced tensor becomes a gradient");
      effect.output = static_cast<int>(tensors_.size());
      tensors_.push_back(now);
    }
    result_.gradient_effects.push_back(effect);
    return absl::OkStatus();
  }

  // Storages that nodes write.
  void FindWrites() {
    written_.clear();
    for (const ir::Node& n : graph_.nodes) {
      if (!n.op->mutates()) continue;
      const auto& schema = n.op->arguments();
      for (std::size_t a = 0; a < n.args.size(); ++a) {
        if (!schema[a].written) continue;
        ir::ForEachValue(n.args[a], [&](ir::ValueId v) { written_[StorageOf(v)] = true; });
      }
    }
  }
  // Storages of which as_strided with an offset, which counts from their beginning, names places.
  void FindNamedPlaces() {
    for (const ir::Node& n : graph_.nodes) {
      const int offset = n.op->FindArgument("storage_offset");
      if (offset < 0 || n.args[0].kind != ir::Arg::Kind::kValue) continue;
      if (n.args[static_cast<std::size_t>(offset)].kind != ir::Arg::Kind::kNone)
        named_.insert(StorageOf(n.args[0].value));
    }
  }
  bool IsWritten(ir::StorageId s) const { return written_.contains(s); }

  // Written inputs; those whose history changed are outputs with a tangent too.
  void AddMutatedOutputs() {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      InputRecord& r = inputs_[i];
      if (!IsWritten(StorageOf(r.value))) continue;
      const bool rebased = GradientFunction(r.fake) != r.gradient_function;
      mutated_.push_back(static_cast<int>(i));
      result_.leaves_read = result_.leaves_read || r.requires_grad;
      if (!rebased) continue;
      ir::Output o = NewOutput(graph_, r.fake);
      o.role = ir::OutputRole::kMutatedInput;
      o.input = static_cast<std::int32_t>(i);
      mutated_output_[static_cast<int>(i)] = static_cast<std::int32_t>(graph_.outputs.size());
      graph_.outputs.push_back(o);
    }
  }

  void AddUnbackedOutputs() {
    for (const UnbackedSymbol& u : recorder_.unbacked()) {
      ir::Output o;
      o.value = u.value;
      o.role = ir::OutputRole::kUnbacked;
      o.symbol = u.symbol;
      o.dim = u.dim;
      graph_.outputs.push_back(o);
    }
  }

  // Facts that no guard can check.
  void DeferFacts() {
    if (recorder_.unbacked().empty()) return;
    auto deferred = std::make_shared<ir::DeferredFacts>();
    deferred->exprs = graph_.exprs;
    for (const ir::Dim fact : recorder_.sizes().facts()) {
      if (graph_.exprs.LastUnbacked(fact) >= 0) deferred->facts.push_back(fact);
    }
    graph_.deferred = std::move(deferred);
  }

  const at::Tensor* TensorOfOutput(std::size_t i) const {
    if (i < tensors_.size()) return &tensors_[i];
    for (const auto& [index, t] : hidden_) {
      if (index == i) return t.defined() ? &t : nullptr;
    }
    return &inputs_[static_cast<std::size_t>(graph_.outputs[i].input)].fake;
  }

  absl::Status RecordBackward() {
    std::vector<std::size_t> outputs;
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const ir::Output& o = graph_.outputs[i];
      if (!o.requires_grad || o.alias != ir::OutputAlias::kFresh) continue;
      if (IsLeaf(*TensorOfOutput(i))) return RefuseMadeLeaves(recorder_, {*TensorOfOutput(i)}, "a leaf is made here");
      outputs.push_back(i);
    }
    if (!outputs.empty() && !result_.geometry_effects.empty()) {
      return Fail(BreakKind::kMetadataMutation, result_.geometry_effects[0].method, "and a result requires grad");
    }
    AddViewsUsedOn(&outputs);
    std::vector<at::Tensor> targets;
    std::vector<int> target_inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (!inputs_[i].requires_grad) continue;
      targets.push_back(inputs_[i].history.defined() ? inputs_[i].history : inputs_[i].fake);
      target_inputs.push_back(static_cast<int>(i));
    }
    for (std::size_t i : outputs) {
      const std::vector<at::Tensor> leaves = OtherLeavesOf(*TensorOfOutput(i), targets);
      if (leaves.empty()) continue;
      return RefuseMadeLeaves(recorder_, leaves, "its history leads to no more than a leaf that is made here");
    }
    absl::StatusOr<BackwardPass> pass = RecordBackwardPass(recorder_, TensorsOfOutputs(outputs), targets);
    if (absl::IsAborted(pass.status())) {
      if (absl::Status s = FindSpent(targets, &outputs); !s.ok()) return s;
      pass = RecordBackwardPass(recorder_, TensorsOfOutputs(outputs), targets);
    }
    if (!pass.ok()) return pass.status();
    FindWrites();
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      tangent_values_.emplace_back(ValueOf(pass->tangents[k]), static_cast<std::int32_t>(outputs[k]));
      if (!IsWritten(StorageOf(tangent_values_.back().first))) continue;
      return Fail(BreakKind::kMutation, "backward", "a gradient that is given to it is written");
    }
    const std::vector<std::size_t> views = ViewsBeside(outputs);
    PassOrder order = OrderOfPass(TensorsOfOutputs(outputs), targets, TensorsOfOutputs(views));
    const bool several = targets.size() > 1 || outputs.size() > 1 || !views.empty();
    const bool any_order = several || !order.functions.empty();
    if (any_order) GiveTurns(order, outputs, views, graph_);
    for (std::size_t i = 0; i < pass->gradients.size(); ++i) {
      const at::Tensor& gradient = pass->gradients[i];
      ir::Output o;
      o.role = ir::OutputRole::kGradient;
      o.input = target_inputs[i];
      if (any_order) o.turns = std::move(order.inputs[i]);
      if (gradient.defined()) {
        if (AsFake(gradient) == nullptr) {
          return Fail(BreakKind::kRealTensor, "backward", "an untraced tensor is a gradient");
        }
        o.value = ValueOf(gradient);
      }
      graph_.outputs.push_back(o);
    }
    AddGradientsOfOutputs(outputs, *pass);
    return absl::OkStatus();
  }

  // Views of inputs and outputs that `outputs` were computed with.
  void AddViewsUsedOn(std::vector<std::size_t>* outputs) const {
    const std::vector<std::size_t> views = ViewsWithHistory(graph_);
    if (views.empty()) return;
    const std::vector<bool> used = AreReached(TensorsOfOutputs(*outputs), TensorsOfOutputs(views));
    for (std::size_t k = 0; k < views.size(); ++k) {
      if (used[k]) outputs->push_back(views[k]);
    }
    std::sort(outputs->begin(), outputs->end());
  }

  // Results with a node of torch's own, with which nothing was computed: a pass comes to them in their turn.
  std::vector<std::size_t> ViewsBeside(const std::vector<std::size_t>& outputs) const {
    std::vector<std::size_t> views;
    if (outputs.empty()) return views;
    std::ranges::set_difference(ViewsWithHistory(graph_), outputs, std::back_inserter(views));
    return views;
  }

  std::vector<at::Tensor> TensorsOfOutputs(const std::vector<std::size_t>& outputs) const {
    std::vector<at::Tensor> tensors;
    tensors.reserve(outputs.size());
    for (std::size_t i : outputs) tensors.push_back(*TensorOfOutput(i));
    return tensors;
  }

  // Outputs that others were computed with: what reaches them in a pass is more than their own tangent, and a hook or
  // retain_grad() that the program puts on one later must see it.
  void AddGradientsOfOutputs(const std::vector<std::size_t>& outputs, const BackwardPass& pass) {
    for (std::size_t k = 0; k < pass.output_gradients.size(); ++k) {
      const at::Tensor& gradient = pass.output_gradients[k];
      if (!gradient.defined() || AsFake(gradient) == nullptr) continue;
      if (ValueOf(gradient) == ValueOf(pass.tangents[k])) continue;
      ir::Output o;
      o.role = ir::OutputRole::kGradient;
      o.of_output = static_cast<std::int32_t>(outputs[k]);
      o.value = ValueOf(gradient);
      graph_.outputs.push_back(o);
    }
  }

  // Leaves out the outputs whose history a backward pass in the frame has used up.
  absl::Status FindSpent(const std::vector<at::Tensor>& targets, std::vector<std::size_t>* outputs) {
    std::vector<std::size_t> good;
    for (std::size_t i : *outputs) {
      const absl::StatusOr<bool> reached = TryPass(i, targets);
      if (!reached.ok() && !absl::IsAborted(reached.status())) return reached.status();
      graph_.outputs[i].spent = !reached.ok() && !ir::IsView(graph_.outputs[i]);
      if (graph_.outputs[i].spent)
        graph_.outputs[i].underivable = UnderivableIn(std::string(reached.status().message()));
      if (reached.ok()) {
        good.push_back(i);
      } else if (absl::Status s = CheckNothingIsLeft(i, targets); !s.ok()) {
        return s;
      }
    }
    *outputs = std::move(good);
    return absl::OkStatus();
  }

  // A pass of an output that fails brings gradients to what it reaches before: no plan does that.
  absl::Status CheckNothingIsLeft(std::size_t output, const std::vector<at::Tensor>& targets) {
    for (const at::Tensor& target : targets) {
      const absl::StatusOr<bool> reached = TryPass(output, {target});
      if (absl::IsAborted(reached.status())) continue;
      if (!reached.ok()) return reached.status();
      if (*reached) return Fail(BreakKind::kHiddenState, "output", "a part of its history is used up");
    }
    return absl::OkStatus();
  }

  // Whether a pass of an output brings a gradient to any of the targets. Nothing of it stays in the graph.
  absl::StatusOr<bool> TryPass(std::size_t output, const std::vector<at::Tensor>& targets) {
    const std::size_t nodes = graph_.nodes.size();
    const absl::StatusOr<BackwardPass> pass = RecordBackwardPass(recorder_, {*TensorOfOutput(output)}, targets);
    graph_.nodes.resize(nodes);
    if (!pass.ok()) return pass.status();
    return std::any_of(pass->gradients.begin(), pass->gradients.end(), [](const at::Tensor& t) { return t.defined(); });
  }

  // Inputs that nodes or outputs use, in the order of their indices; then tangents.
  void SelectInputs() {
    std::vector<bool> used(graph_.values.size(), false);
    for (const ir::Node& n : graph_.nodes) {
      ir::ForEachUse(n, [&](ir::ValueId v) { used[static_cast<std::size_t>(v)] = true; });
    }
    std::vector<bool> wanted(inputs_.size(), false);
    for (const ir::Output& o : graph_.outputs) {
      if (o.value != ir::kNoValue) used[static_cast<std::size_t>(o.value)] = true;
      const bool of_input = o.alias == ir::OutputAlias::kInput || o.alias == ir::OutputAlias::kViewOfInput;
      if (of_input) wanted[static_cast<std::size_t>(o.alias_of)] = true;
      if (o.value != ir::kNoValue && o.input >= 0) wanted[static_cast<std::size_t>(o.input)] = true;
    }
    std::vector<int> order;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (used[static_cast<std::size_t>(inputs_[i].value)] || wanted[i] || inputs_[i].asked_for_grad)
        order.push_back(static_cast<int>(i));
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return SortKey(a) < SortKey(b); });
    for (int i : order) AddGraphInput(i);
    for (const auto& [value, output] : tangent_values_) {
      ir::Input in;
      in.value = value;
      in.role = ir::InputRole::kTangent;
      in.tangent_of = output;
      graph_.inputs.push_back(std::move(in));
    }
    Renumber();
    AssignOverlaps();
  }

  // Gradients that came along stand after everything the caller numbered.
  std::pair<int, int> SortKey(int i) const {
    const int index = inputs_[static_cast<std::size_t>(i)].input_index;
    return {index < 0 ? 1 : 0, index};
  }

  void AddGraphInput(int i) {
    const InputRecord& r = inputs_[static_cast<std::size_t>(i)];
    graph_input_[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(graph_.inputs.size());
    ir::Input in;
    in.value = r.value;
    in.name = r.name;
    if (r.role == InputRole::kParameter) in.role = ir::InputRole::kParameter;
    if (r.role == InputRole::kBuffer) in.role = ir::InputRole::kBuffer;
    if (std::find(mutated_.begin(), mutated_.end(), i) != mutated_.end()) {
      in.mutated = true;
      auto it = mutated_output_.find(i);
      in.mutated_without_grad = it == mutated_output_.end();
      if (it != mutated_output_.end()) in.mutated_output = it->second;
    }
    TracedInput traced;
    traced.input_index = r.input_index;
    if (!r.fake.is_inference()) {
      const bool undone = IsWritten(StorageOf(r.value)) && IsAsItWas(r);
      const std::int64_t later = undone ? 0 : recorder_.writes().CountGeometry(AsFake(r.fake));
      traced.version_bumps = static_cast<int>(r.fake._version() - r.version - later);
    }
    in.mutated_uncounted = in.mutated_without_grad && traced.version_bumps == 0;
    graph_.inputs.push_back(std::move(in));
    traced.asked_for_grad = r.asked_for_grad;
    traced.storage_read = r.storage_read || recorder_.writes().HadRoom(StorageOf(r.value));
    traced.storage_offset_read = named_.contains(StorageOf(r.value));
    if (r.gradient_of >= 0) {
      traced.gradient_of = inputs_[static_cast<std::size_t>(r.gradient_of)].input_index;
      NoteGradientRead(r.gradient_of);
    }
    result_.inputs.push_back(traced);
  }

  void NoteGradientRead(int i) {
    const int index = inputs_[static_cast<std::size_t>(i)].input_index;
    auto& read = result_.gradients_read;
    if (std::find(read.begin(), read.end(), index) == read.end()) read.push_back(index);
  }

  // Outputs refer to input records so far; from here to the graph's inputs. Gradients of unused inputs go.
  void Renumber() {
    for (int i : gradient_changed_) NoteGradientRead(i);
    for (ir::Output& o : graph_.outputs) {
      if (o.alias == ir::OutputAlias::kInput || o.alias == ir::OutputAlias::kViewOfInput) {
        o.alias_of = graph_input_[static_cast<std::size_t>(o.alias_of)];
      }
      if (o.input >= 0) o.input = graph_input_[static_cast<std::size_t>(o.input)];
    }
    std::erase_if(graph_.outputs, [](const ir::Output& o) {
      return o.role == ir::OutputRole::kGradient && o.input < 0 && o.of_output < 0;
    });
  }

  void AssignOverlaps() {
    absl::flat_hash_map<ir::StorageId, int> count;
    for (const ir::Input& in : graph_.inputs) ++count[StorageOf(in.value)];
    absl::flat_hash_map<ir::StorageId, std::int32_t> classes;
    for (ir::Input& in : graph_.inputs) {
      if (count[StorageOf(in.value)] < 2) continue;
      auto [it, inserted] = classes.try_emplace(StorageOf(in.value), static_cast<std::int32_t>(classes.size() + 1));
      in.overlap_class = it->second;
    }
  }

  Recorder& recorder_;
  ir::Graph& graph_;
  std::vector<InputRecord>& inputs_;
  std::vector<at::Tensor> tensors_;  // the caller's outputs, then new gradients
  OriginProvider* origins_;
  std::vector<std::int32_t> graph_input_;  // by input record
  absl::flat_hash_map<ir::StorageId, bool> written_;
  absl::flat_hash_set<ir::StorageId> named_;
  std::vector<int> mutated_;                               // input records
  absl::flat_hash_map<int, std::int32_t> mutated_output_;  // input record → output
  std::vector<std::pair<std::size_t, at::Tensor>> hidden_;
  std::vector<std::pair<ir::ValueId, std::int32_t>> tangent_values_;
  std::vector<int> gradient_changed_;
  TracedGraph result_;
};

}  // namespace

absl::StatusOr<TracedGraph> CloseRecording(Recorder& recorder, std::vector<InputRecord>& inputs,
                                           std::vector<at::Tensor> outputs, absl::Span<const at::Tensor> of_functions,
                                           bool for_backward, OriginProvider* origins) {
  try {
    return Closing(recorder, inputs, std::move(outputs), origins).Run(of_functions, for_backward);
  } catch (const c10::Error& error) {  // views that must not be asked for their history after a write, mostly
    recorder.SetPendingBreak({BreakKind::kMutation, "output", error.what_without_backtrace(), {}});
    return absl::FailedPreconditionError(error.what_without_backtrace());
  }
}

}  // namespace framefuse::tracing
