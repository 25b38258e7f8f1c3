#include "backends/autograd/output_history.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "backends/autograd/output_gate.h"
#include "common/index.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;

void SetHistory(at::Tensor& t, const AutogradNodePtr& node) {
  // An operator may have returned its argument itself, which has a history of its own.
  if (t.defined() && t.unsafeGetTensorImpl()->autograd_meta() != nullptr) t = t.detach();
  autograd::set_history(t, node);
}

// Whether the elements of `t` are among those of `whole`, which has no gaps.
bool LiesIn(const at::Tensor& t, const at::Tensor& whole) {
  if (!t.defined() || t.layout() != c10::Layout::Strided || !t.storage().is_alias_of(whole.storage())) return false;
  std::int64_t last = t.storage_offset();
  for (std::int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  const std::int64_t first = whole.storage_offset();
  return t.dtype() == whole.dtype() && t.is_conj() == whole.is_conj() && t.is_neg() == whole.is_neg() &&
         t.storage_offset() >= first && last < first + whole.numel() && whole.is_non_overlapping_and_dense();
}

bool LieAlike(const at::Tensor& a, const at::Tensor& b) {
  const bool strided = a.layout() == c10::Layout::Strided && b.layout() == c10::Layout::Strided;
  return strided && a.sizes() == b.sizes() && a.strides() == b.strides() && a.dtype() == b.dtype() &&
         a.device() == b.device() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

template <typename Saved>
void AddByMemory(const at::Tensor& value, std::size_t s, Saved* saved) {
  const bool has_memory = value.defined() && value.layout() == c10::Layout::Strided;
  if (has_memory) (*saved)[value.storage().data()].push_back(s);
}

}  // namespace

OutputHistory::OutputHistory(std::shared_ptr<const BackwardPlan> plan, std::vector<std::int32_t> outputs,
                             std::size_t visible_outputs, std::vector<Written> written, std::vector<View> views,
                             std::vector<ViewResult> view_results)
    : plan_(std::move(plan)),
      outputs_(std::move(outputs)),
      visible_outputs_(visible_outputs),
      written_(std::move(written)),
      view_results_(std::move(view_results)) {
  for (const ir::Output& o : plan_->joint().outputs) {
    if (o.role == ir::OutputRole::kGradient && o.input >= 0) inputs_.push_back(o.input);
  }
  OrderGates();
  PlaceViews(std::move(views));
  reached_.assign(inputs_.size(), false);
  for (std::size_t g = 0; g < inputs_.size(); ++g) {
    for (std::size_t t = 0; t < plan_->tangents().size(); ++t) reached_[g] = reached_[g] || plan_->Reaches(g, t);
  }
}

// An output before those that were computed with it.
void OutputHistory::OrderGates() {
  std::vector<std::size_t> computed_with(outputs_.size(), 0);
  for (std::size_t o = 0; o < outputs_.size(); ++o) gates_.push_back({o, CutPointsAfter(o)});
  for (const Gate& gate : gates_) {
    for (std::size_t place : gate.places) ++computed_with[plan_->output_gradients()[place].tangent];
  }
  // A written input's node comes in its turn, also where nothing was computed with what was written.
  for (Gate& gate : gates_) {
    const bool leads = computed_with[gate.output] > 0 || IsWritten(gate.output);
    gate.leads_to_what_is_seen = leads && IsSeenOtherwise(gate.output);
  }
  std::stable_sort(gates_.begin(), gates_.end(),
                   [&](const Gate& a, const Gate& b) { return computed_with[a.output] > computed_with[b.output]; });
  std::vector<Gate> by_turn = gates_;
  std::stable_sort(by_turn.begin(), by_turn.end(),
                   [&](const Gate& a, const Gate& b) { return TurnOf(a.output) > TurnOf(b.output); });
  std::vector<bool> made(outputs_.size(), false);
  for (const Gate& gate : by_turn) {
    for (std::size_t place : gate.places) {
      if (!made[plan_->output_gradients()[place].tangent]) return;
    }
    made[gate.output] = true;
  }
  gates_ = std::move(by_turn);
}

void OutputHistory::PlaceViews(std::vector<View> views) {
  std::stable_sort(views.begin(), views.end(), [](const View& a, const View& b) { return a.turn > b.turn; });
  std::size_t first = 0;
  for (const View& view : views) {
    const auto gate_of = [this](std::int32_t output) {
      return std::find_if(gates_.begin(), gates_.end(), [&](const Gate& g) { return outputs_[g.output] == output; });
    };
    if (const auto own = gate_of(view.output); own != gates_.end()) {  // others were computed with it
      own->is_view_in_turn = true;
      continue;
    }
    const auto base = gate_of(view.of_output);
    if (base != gates_.end()) first = std::max(first, static_cast<std::size_t>(base - gates_.begin()) + 1);
    while (first < gates_.size() && TurnOf(gates_[first].output) > view.turn) ++first;
    views_.push_back({view, first});
  }
}

std::int32_t OutputHistory::TurnOf(std::size_t output) const {
  const ir::Output* o = OutputOf(output);
  return o == nullptr || o->turns.empty() ? -1 : o->turns.front();
}

std::vector<std::size_t> OutputHistory::CutPointsAfter(std::size_t output) const {
  std::vector<std::size_t> places;
  for (std::size_t p = 0; p < plan_->output_gradients().size() && output < plan_->tangents().size(); ++p) {
    const BackwardPlan::OutputGradient& place = plan_->output_gradients()[p];
    if (place.tangent != output && plan_->Depends(place.gradient, output)) places.push_back(p);
  }
  return places;
}

autograd::edge_list OutputHistory::EdgesTo(const BackwardPlan::InputClass& inputs,
                                           absl::Span<const at::Tensor> given) const {
  autograd::edge_list edges;
  edges.reserve(inputs.gradients.size());
  for (std::int32_t g : inputs.gradients) {
    const at::Tensor& t = given[At(inputs_[At(g)])];
    const bool leads = reached_[At(g)] && t.defined() && t.requires_grad();
    edges.push_back(leads ? autograd::impl::gradient_edge(t) : autograd::Edge());
  }
  return edges;
}

std::vector<autograd::edge_list> OutputHistory::MakeNodes(absl::Span<const at::Tensor> inputs,
                                                          absl::Span<const at::Tensor> outputs,
                                                          const std::shared_ptr<BackwardRun>& run) const {
  const std::vector<BackwardPlan::InputClass>& classes = plan_->input_classes();
  std::vector<autograd::edge_list> made(outputs_.size());
  // The numbers before the nodes' are left to the leaves: they come when all the nodes have run, then at once.
  for (std::size_t g = 0; g < inputs_.size() && run->HasGates(); ++g) at::sequence_number::get_and_increment();
  for (std::size_t c = 0; c < classes.size(); ++c) {
    autograd::edge_list edges = EdgesTo(classes[c], inputs);
    const bool leads = std::any_of(edges.begin(), edges.end(), [](const autograd::Edge& e) { return e.is_valid(); });
    if (classes.size() > 1 && !leads) continue;
    AutogradNodePtr node = MakeAutogradNode<CompiledBackward>(run, c, std::move(edges));
    for (std::int32_t o : classes[c].tangents) {
      const at::Tensor& t = outputs[At(outputs_[At(o)])];
      const auto index =
          t.defined() ? node->add_input_metadata(t) : node->add_input_metadata(autograd::Node::undefined_input());
      made[At(o)].emplace_back(node, index);
    }
  }
  return made;
}

void OutputHistory::Record(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                           absl::Span<at::Tensor> outputs, absl::FunctionRef<at::Tensor(std::int32_t)> seen,
                           absl::FunctionRef<void()> write_rest) const {
  if (!at::GradMode::is_enabled()) return;
  const bool any = std::any_of(inputs_.begin(), inputs_.end(), [&](std::int32_t i) {
    return inputs[At(i)].defined() && inputs[At(i)].requires_grad();
  });
  if (!any) return;
  auto run = std::make_shared<BackwardRun>(plan_);
  autograd::Node* only = nullptr;
  std::vector<autograd::edge_list> nodes;
  run->SaveInputs(inputs, symbols, [&] {
    RenewViews(inputs, seen);
    if (run->HasGates()) {
      nodes = MakeNodes(inputs, outputs, run);
    } else {
      AutogradNodePtr node = MakeAutogradNode<CompiledBackward>(run, 0, EdgesTo(plan_->input_classes()[0], inputs));
      only = node.get();
      nodes = {{autograd::Edge(std::move(node), 0)}};
    }
  });
  if (only == nullptr) {
    MakeGates(std::move(nodes), run, outputs, seen);
  } else {
    SetHistory(outputs[At(outputs_[0])], nodes[0][0].function);
  }
  SeeViews(*run, seen);
  WatchWritten(outputs, seen, write_rest);
  if (only != nullptr && IsWritten(0)) {
    const at::Tensor t = seen(outputs_[0]);
    if (t.requires_grad()) run->seen_writes().Add(OutputOf(0)->input, t, autograd::impl::gradient_edge(t));
  }
  run->SaveOutputs(outputs, visible_outputs_, only, seen);
  run->SaveCopies(inputs, outputs, visible_outputs_, seen);
}

// The write comes first: torch makes the history of such a view anew when it is asked for.
void OutputHistory::RenewViews(absl::Span<const at::Tensor> inputs,
                               absl::FunctionRef<at::Tensor(std::int32_t)> seen) const {
  for (const Written& w : written_) {
    const at::Tensor* const input = w.renewed < 0 ? nullptr : &inputs[At(w.renewed)];
    if (input != nullptr && input->is_view() && input->requires_grad()) seen(w.output);
  }
}

void OutputHistory::SeeViews(BackwardRun& run, absl::FunctionRef<at::Tensor(std::int32_t)> seen) const {
  for (const ViewResult& view : view_results_) {
    const at::Tensor t = seen(view.output);
    if (t.requires_grad() && t.grad_fn()) run.SeeView(view.result, autograd::impl::gradient_edge(t));
  }
}

// A write of the input after this run is noticed where the output is saved, and this run's writes are none after it.
void OutputHistory::WatchWritten(absl::Span<at::Tensor> outputs, absl::FunctionRef<at::Tensor(std::int32_t)> seen,
                                 absl::FunctionRef<void()> write_rest) const {
  if (std::none_of(written_.begin(), written_.end(), [](const Written& w) { return w.read; })) return;
  write_rest();
  SavedByMemory saved;
  for (std::size_t s = 0; s < plan_->saved().size(); ++s) {
    const SavedValue& value = plan_->saved()[s];
    if (!value.is_input && !plan_->use().ReadersOf(s).empty()) AddByMemory(outputs[At(value.index)], s, &saved);
  }
  for (const Written& w : written_) {
    const at::Tensor input = seen(w.output);
    if (!w.read || input.is_inference()) continue;
    const at::Tensor written = outputs[At(w.output)];
    TakeMemoryOf(input, written, w.output, outputs, &saved);
    autograd::impl::set_version_counter(outputs[At(w.output)], autograd::impl::version_counter(input));
  }
}

// As eager's nodes, which save no copies: a write that no version counts is seen by the backward.
void OutputHistory::TakeMemoryOf(const at::Tensor& input, const at::Tensor& written, std::int32_t output,
                                 absl::Span<at::Tensor> outputs, SavedByMemory* by_memory) const {
  if (!LieAlike(written, input)) return;
  const auto found = by_memory->find(written.storage().data());
  if (found == by_memory->end()) return;
  const absl::InlinedVector<std::size_t, 1> there_now = found->second;
  for (const std::size_t s : there_now) {
    const std::int32_t index = plan_->saved()[s].index;
    // What a second derivative alone starts from is no value that eager's nodes have saved.
    if (index != output && At(index) < visible_outputs_) continue;
    at::Tensor& value = outputs[At(index)];
    if (!LiesIn(value, written)) continue;
    const std::int64_t offset = value.storage_offset() - written.storage_offset() + input.storage_offset();
    at::Tensor there = input.variable_data();
    there.unsafeGetTensorImpl()->set_sizes_and_strides(value.sizes(), value.strides(), offset);
    if (value.grad_fn()) autograd::impl::set_gradient_edge(there, autograd::impl::gradient_edge(value));
    autograd::impl::set_version_counter(there, autograd::impl::version_counter(input));
    value = std::move(there);
    AddByMemory(value, s, by_memory);
  }
}

const ir::Output* OutputHistory::OutputOf(std::size_t output) const {
  if (output >= plan_->tangents().size()) return nullptr;
  const ir::Graph& joint = plan_->joint();
  return &joint.outputs[At(joint.inputs[At(plan_->tangents()[output])].tangent_of)];
}

bool OutputHistory::IsWritten(std::size_t output) const {
  const ir::Output* o = OutputOf(output);
  return o != nullptr && o->role == ir::OutputRole::kMutatedInput;
}

bool OutputHistory::IsSeenOtherwise(std::size_t output) const {
  return IsWritten(output) || (OutputOf(output) != nullptr && ir::IsView(*OutputOf(output)));
}

void OutputHistory::MakeGates(std::vector<autograd::edge_list> nodes, const std::shared_ptr<BackwardRun>& run,
                              absl::Span<at::Tensor> outputs, absl::FunctionRef<at::Tensor(std::int32_t)> seen) const {
  autograd::edge_list made(outputs_.size());
  auto view = views_.begin();
  for (std::size_t g = 0; g < gates_.size(); ++g) {
    for (; view != views_.end() && view->gate <= g; ++view) MakeView(view->view, /*tangent=*/-1, *run, seen);
    const Gate& gate = gates_[g];
    const std::int32_t output = outputs_[gate.output];
    if (!IsOfView(gate.output)) {
      autograd::edge_list edges = std::move(nodes[gate.output]);
      for (std::size_t place : gate.places) edges.push_back(made[plan_->output_gradients()[place].tangent]);
      AutogradNodePtr node = MakeAutogradNode<OutputGate>(run, gate.output, gate.places, std::move(edges));
      SetHistory(outputs[At(output)], node);
      made[gate.output] = autograd::Edge(std::move(node), /*input_nr=*/0);
    }
    if (IsOfView(gate.output) && gate.is_view_in_turn) {
      MakeView({output, TurnOf(gate.output)}, static_cast<std::int32_t>(gate.output), *run, seen);
    } else if (IsOfView(gate.output)) {
      run->AddView({}, /*turn=*/-1, /*tangent=*/-1);
    }
    if (!gate.leads_to_what_is_seen) continue;
    const at::Tensor t = seen(output);
    made[gate.output] = t.requires_grad() ? autograd::impl::gradient_edge(t) : autograd::Edge();
    if (IsWritten(gate.output)) run->seen_writes().Add(OutputOf(gate.output)->input, t, made[gate.output]);
  }
  for (; view != views_.end(); ++view) MakeView(view->view, /*tangent=*/-1, *run, seen);
}

void OutputHistory::MakeView(const View& view, std::int32_t tangent, BackwardRun& run,
                             absl::FunctionRef<at::Tensor(std::int32_t)> seen) {
  const at::Tensor t = seen(view.output);
  if (t.requires_grad() && t.grad_fn()) run.AddView(autograd::impl::gradient_edge(t), view.turn, tangent);
}

namespace {
class SpentHistory final : public autograd::Node {
 public:
  SpentHistory(autograd::edge_list edges, const SpentFunction& function)
      : Node(std::move(edges)), function_(function) {}
  std::string name() const override { return function_.name.empty() ? CompiledBackward::kRange : function_.name; }

 private:
  autograd::variable_list apply(autograd::variable_list&&) override {
    // As torch's own node for it does.
    const std::string& underivable = function_.underivable;
    if (!underivable.empty()) throw std::runtime_error("derivative for " + underivable + " is not implemented");
    TORCH_CHECK(false, autograd::ERR_BACKWARD_TWICE);
  }

  SpentFunction function_;
};
}  // namespace

namespace {
AutogradNodePtr MakeSpentNode(absl::Span<const at::Tensor> inputs, const SpentFunction& function) {
  // What is behind waits for it, as in eager, and so is not reached by other outputs before the error.
  autograd::edge_list edges;
  for (const at::Tensor& input : inputs) {
    if (input.defined() && input.requires_grad()) edges.push_back(autograd::impl::gradient_edge(input));
  }
  AutogradNodePtr node = MakeAutogradNode<SpentHistory>(std::move(edges), function);
  if (!function.underivable.empty())
    node->set_sequence_nr(UINT64_MAX);  // as torch's own, which comes before all others
  return node;
}
}  // namespace

void SetSpentHistory(at::Tensor& t, absl::Span<const at::Tensor> inputs, const SpentFunction& function) {
  if (at::GradMode::is_enabled()) SetHistory(t, MakeSpentNode(inputs, function));
}

void SetSpentHistoryOfView(at::Tensor& view, absl::Span<const at::Tensor> inputs, const SpentFunction& function) {
  if (!at::GradMode::is_enabled() || view.requires_grad()) return;
  at::Tensor base(view._base());
  if (!base.requires_grad()) autograd::set_history(base, MakeSpentNode(inputs, function));
  autograd::set_history(view, MakeSpentNode(inputs, function));
}

at::Tensor MadeInInferenceMode(const at::Tensor& t, bool in_own_memory) {
  if (!t.defined() || t.is_inference()) return t;
  const c10::InferenceMode mode;
  if (in_own_memory) return at::empty_strided(t.sizes(), t.strides(), t.options()).copy_(t);
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(t.storage()), t.key_set(), t.dtype());
  made.unsafeGetTensorImpl()->set_storage_offset(t.storage_offset());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides());
  return made;
}

}  // namespace framefuse
