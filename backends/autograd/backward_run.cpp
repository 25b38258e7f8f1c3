#include "backends/autograd/backward_run.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "backends/autograd/compiled_backward.h"
#include "backends/autograd/differentiable_plans.h"
#include "backends/autograd/end_of_backward.h"
#include "backends/autograd/leaf_order.h"
#include "backends/autograd/output_gate.h"
#include "backends/autograd/own_memory.h"
#include "backends/autograd/pass_under_way.h"
#include "backends/runtime/torch_error.h"
#include "common/index.h"
#include "common/status.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;

constexpr const char* kOtherData =
    "framefuse: the backward reads a tensor itself and a view of it that was made before the program replaced the "
    "tensor's data. Read one of them, or a clone";

at::Tensor ZerosLike(const ir::Graph& joint, const ir::Value& recorded, absl::Span<const std::int64_t> symbols) {
  std::vector<std::int64_t> sizes;
  for (const ir::Dim& d : recorded.sizes) sizes.push_back(joint.exprs.Evaluate(d, symbols));
  return at::zeros(sizes, at::TensorOptions().dtype(recorded.dtype).device(recorded.device));
}

}  // namespace

BackwardRun::BackwardRun(std::shared_ptr<const BackwardPlan> plan)
    : plan_(std::move(plan)),
      has_gates_(plan_->tangents().size() > 1 || plan_->input_classes().size() > 1 || plan_->HasViewsOfInputs()) {}

void BackwardRun::SeeView(std::size_t result, const autograd::Edge& edge) {
  seen_views_.push_back({result, WeakNode(edge.function), edge.input_nr});
}

void BackwardRun::Release(const Used& used, bool last) {
  const std::lock_guard running(running_);
  const std::lock_guard lock(mutex_);
  std::vector<int>& released = released_in_;
  released.resize(plan_->graph().nodes.size(), kNever);
  const int pass = autograd::get_current_graph_task_id();
  // Without a pass the node dies (torch asks it up to 2.12): nothing is used up for those that share the run.
  for (std::int32_t n : pass >= 0 ? used.readers : std::vector<std::int32_t>()) released[At(n)] = pass;
  if (!last) return;
  bool all_done = true;
  for (std::size_t s = 0; s < saved_.size(); ++s) {
    const std::vector<std::int32_t>& readers = plan_->use().ReadersOf(s);
    if (readers.empty()) continue;
    const bool done = used.everything || std::all_of(readers.begin(), readers.end(),
                                                     [&](std::int32_t n) { return released[At(n)] != kNever; });
    if (done) saved_.Drop(s);
    if (done) detached_.Forget(s);
    if (done && s < memory_.size()) memory_[s] = {};
    all_done = all_done && done;
  }
  for (std::size_t s = 0; s < saved_.size() && all_done; ++s) {
    if (!plan_->use().ReadersOf(s).empty()) continue;
    saved_.Drop(s);
    detached_.Forget(s);
  }
  if (!all_done) return;
  inputs_.clear();
  written_uncounted_.clear();
  read_by_data_.clear();
}

// The backward was recorded for a tangent with these strides; another layout may not fit its views.
at::Tensor BackwardRun::PrepareTangent(std::size_t tangent, at::Tensor gradient) const {
  const ir::Graph& joint = plan_->joint();
  const ir::Value& recorded = joint.value(joint.inputs[At(plan_->tangents()[tangent])].value);
  if (!gradient.defined()) gradient = ZerosLike(joint, recorded, symbols_);
  gradient = gradient.resolve_conj().resolve_neg();  // kernels read memory, which knows of neither
  if (recorded.layout != c10::Layout::Strided || gradient.layout() != c10::Layout::Strided) return gradient;
  std::vector<std::int64_t> strides;
  bool same = true;
  for (std::size_t d = 0; d < recorded.strides.size(); ++d) {
    strides.push_back(joint.exprs.Evaluate(recorded.strides[d], symbols_));
    auto dim = static_cast<std::int64_t>(d);
    same = same && (gradient.size(dim) <= 1 || gradient.stride(dim) == strides.back());
  }
  if (same) return gradient;
  return at::empty_strided(gradient.sizes(), strides, gradient.options()).copy_(gradient);
}

std::vector<std::int32_t> BackwardRun::Turns(const std::string& defined) const {
  std::vector<std::int32_t> turns(plan_->input_gradients());
  for (std::size_t g = 0; g < turns.size(); ++g) turns[g] = plan_->TurnOf(g, defined);
  return turns;
}

std::string BackwardRun::DecideCut(const std::vector<std::size_t>& places,
                                   absl::FunctionRef<bool(std::size_t)> is_observed) {
  constexpr std::size_t kPasses = 16;  // nobody tells of a pass's end
  const std::lock_guard lock(mutex_);
  std::string& cut = cut_in_[autograd::get_current_graph_task_id()];
  cut.resize(plan_->output_gradients().size(), '?');
  for (std::size_t k = 0; k < places.size(); ++k) {
    char& here = cut[places[k]];
    if (here == '?') here = is_observed(k) ? '1' : '0';
  }
  std::string result = cut;
  if (cut_in_.size() > kPasses) cut_in_.erase(cut_in_.begin());
  return result;
}

// Left as it is: each of several nodes asks.
std::string BackwardRun::CutOfBackward() {
  if (plan_->output_gradients().empty()) return "";
  const std::lock_guard lock(mutex_);
  const auto it = cut_in_.find(autograd::get_current_graph_task_id());
  return it == cut_in_.end() || it->second.find('1') == std::string::npos ? "" : it->second;
}

autograd::variable_list BackwardRun::InputGradients(autograd::variable_list tangents, std::string defined,
                                                    std::string wanted, const GradientTargets& targets, Used* used) {
  const BackwardPlan::Key key{std::move(wanted), std::move(defined), CutOfBackward()};
  autograd::variable_list result = Gradients(std::move(tangents), key, targets, used);
  result.resize(plan_->input_gradients());
  if (!at::GradMode::is_enabled()) OwnMemoryOfLeaves(targets.edges, result);
  if (AnyLeafHasHooks(targets)) OrderLeaves(targets, Turns(key.defined));
  return result;
}

autograd::variable_list BackwardRun::Gradients(autograd::variable_list tangents, const BackwardPlan::Key& key,
                                               const GradientTargets& targets, Used* used) {
  std::unique_lock lock(running_);
  *used = {{}, /*everything=*/false};
  if (key.wanted.find('1') == std::string::npos) return autograd::variable_list(plan_->gradients().size());
  if (at::GradMode::is_enabled()) {  // a leaf copies then
    const std::vector<std::int32_t> readers = ValueOrThrow(plan_->ReadersFor(key));
    const Unpacked failure = FirstFailure(readers, /*turn=*/INT64_MAX, targets.node);
    if (failure.error == nullptr) return RunDifferentiable(std::move(tangents), key, targets, used);
    ActBefore(failure.failed, nullptr, readers, std::move(tangents), key, targets, &lock);
    std::rethrow_exception(failure.error);
  }
  return RunVariant(std::move(tangents), key, targets, used, &lock);
}

// As eager: an operator's saved values serve one backward pass.
ir::NodeIndex BackwardRun::FirstUsedUp(const std::vector<std::int32_t>& readers) {
  const std::lock_guard lock(mutex_);
  const std::vector<int>& released = released_in_;
  if (released.empty()) return ir::kNoNode;
  const int now = autograd::get_current_graph_task_id();
  for (std::int32_t n : readers) {
    // What another node of this run has used in the same pass is, in eager, used once for both.
    if (released[At(n)] != kNever && released[At(n)] != now) return n;
  }
  return ir::kNoNode;
}

autograd::variable_list BackwardRun::RunVariant(autograd::variable_list tangents, const BackwardPlan::Key& key,
                                                const GradientTargets& targets, Used* used,
                                                std::unique_lock<std::mutex>* lock) {
  const BackwardPlan::Variant& variant = *ValueOrThrow(plan_->FindVariant(key));
  if (const ir::NodeIndex node = FirstUsedUp(variant.readers); node != ir::kNoNode) {
    const Unpacked before = UnpackFor(variant, targets);  // what fails first says what is wrong
    const bool other = before.error != nullptr && before.failed < node;
    ActBefore(other ? before.failed : node, &variant, variant.readers, std::move(tangents), key, targets, lock);
    if (other) std::rethrow_exception(before.error);
    TORCH_CHECK(false, autograd::ERR_BACKWARD_TWICE);
  }
  used->readers = variant.readers;
  Unpacked unpacked = UnpackFor(variant, targets);
  if (unpacked.error != nullptr) {
    ActBefore(unpacked.failed, &variant, variant.readers, std::move(tangents), key, targets, lock);
    std::rethrow_exception(unpacked.error);
  }
  const std::vector<std::size_t> early = EarlyOutputs(variant, key.defined, targets);
  if (early.empty()) return Execute(variant, std::move(unpacked.saved), std::move(tangents), targets);
  // The hooks of leaves run in between: they may come here again.
  lock->unlock();
  std::size_t last = early.front();
  try {
    return Execute(variant, std::move(unpacked.saved), std::move(tangents), targets, early, &last);
  } catch (...) {
    const std::int32_t turn = plan_->TurnOf(At(variant.gradients[last]), key.defined);
    UseUp(variant.readers, [&](ir::NodeIndex n) { return plan_->TurnOfNode(n) < turn; });
    throw;
  }
}

// Where hooks are told of gradients (DistributedDataParallel's send them to others) these go to their leaves as soon as
// they are there, in eager's order.
std::vector<std::size_t> BackwardRun::EarlyOutputs(const BackwardPlan::Variant& variant, const std::string& defined,
                                                   const GradientTargets& targets) const {
  std::vector<std::size_t> early;
  if (!AnyLeafHasHooks(targets)) return early;
  const std::vector<std::int32_t> turns = Turns(defined);
  const auto turn = [&](std::size_t output) { return turns[At(variant.gradients[output])]; };
  for (std::size_t i = 0; i < variant.gradients.size(); ++i) {
    const std::size_t g = At(variant.gradients[i]);
    if (g < turns.size() && turns[g] >= 0 && targets.edges[g].is_valid()) early.push_back(i);
  }
  std::stable_sort(early.begin(), early.end(), [&](std::size_t a, std::size_t b) { return turn(a) < turn(b); });
  return early;
}

AutogradNodePtr BackwardRun::NodeFor(std::size_t saved, autograd::Node& node) const {
  const SavedValue& s = plan_->saved()[saved];
  return s.reads.itself && s.saved_by.empty() ? nullptr : node.getptr();
}

at::Tensor BackwardRun::Unpack(std::size_t saved, autograd::Node& node) const {
  at::Tensor t = saved_.Unpack(saved, NodeFor(saved, node));
  if (saved >= memory_.size() || !memory_[saved].storage) return t;
  const Memory& memory = memory_[saved];
  if (t.storage().is_alias_of(memory.storage) && t.storage_offset() == memory.offset) return t;
  const ir::Graph& joint = plan_->joint();
  const ir::Value& recorded = joint.value(plan_->saved()[saved].value);
  std::vector<std::int64_t> sizes, strides;
  for (const ir::Dim& d : recorded.sizes) sizes.push_back(joint.exprs.Evaluate(d, symbols_));
  for (const ir::Dim& d : recorded.strides) strides.push_back(joint.exprs.Evaluate(d, symbols_));
  const at::AutoGradMode no_history(false);
  at::Tensor old = at::empty({0}, at::TensorOptions().dtype(recorded.dtype).device(recorded.device));
  old.set_(memory.storage, memory.offset, sizes, strides);
  if (plan_->saved()[saved].reads.itself) {
    const bool same = t.sizes() == old.sizes() && t.scalar_type() == old.scalar_type() && t.device() == old.device() &&
                      at::equal(t.detach(), old);
    TORCH_CHECK(same, kOtherData);
  }
  if (t.requires_grad()) autograd::impl::set_gradient_edge(old, autograd::impl::gradient_edge(t));
  return old;
}

// As eager: what an operator saved and the program has written since fails where the pass comes to it.
BackwardRun::Unpacked BackwardRun::UnpackFor(const BackwardPlan::Variant& variant,
                                             const GradientTargets& targets) const {
  Unpacked unpacked;
  const auto look_at = [&](std::size_t s) -> at::Tensor {
    try {
      return Unpack(s, targets.node);
    } catch (const c10::Error&) {  // a hook's error in Python goes on at once
      ir::NodeIndex node = 0;
      bool refused = false;
      for (std::int32_t n : plan_->use().ReadersOf(s)) {
        if (!std::binary_search(variant.readers.begin(), variant.readers.end(), n)) continue;
        node = plan_->FirstOfTurn(n);
        refused = detached_.IsRefused(*plan_, s, n);
        break;
      }
      if (unpacked.error != nullptr && node >= unpacked.failed) return {};
      // A node asks of each tensor whether it was detached, and then for its version.
      unpacked = {{}, node, refused ? DetachedResults::Error() : std::current_exception()};
      return {};
    }
  };
  for (std::int32_t i : variant.inputs) {
    if (At(i) < saved_.size()) unpacked.saved.push_back(look_at(At(i)));
  }
  for (std::size_t s : variant.looked_at) look_at(s);
  const ir::NodeIndex refusing = detached_.FirstRefusing(*plan_, variant.readers);
  const bool first = unpacked.error == nullptr || refusing < unpacked.failed;
  if (refusing != ir::kNoNode && first) unpacked = {{}, refusing, DetachedResults::Error()};
  return unpacked;
}

autograd::variable_list BackwardRun::Execute(const BackwardPlan::Variant& variant, std::vector<at::Tensor> saved,
                                             autograd::variable_list tangents, const GradientTargets& targets,
                                             absl::Span<const std::size_t> early, std::size_t* last) const {
  std::vector<at::Tensor> inputs;
  inputs.reserve(variant.inputs.size());
  bool any_copied = false;
  auto next = saved.begin();
  for (std::int32_t i : variant.inputs) {
    std::size_t at = At(i);
    if (at < saved_.size()) {
      inputs.push_back(std::move(*next++));
    } else {
      std::size_t t = at - saved_.size();
      const auto* given = tangents[t].unsafeGetTensorImpl();
      inputs.push_back(PrepareTangent(t, std::move(tangents[t])));
      any_copied = any_copied || inputs.back().unsafeGetTensorImpl() != given;
    }
  }
  tangents.clear();
  saved.clear();
  std::vector<at::Tensor> outputs(variant.gradients.size());
  {
    const c10::impl::LocalDispatchKeySet outside = c10::impl::tls_local_dispatch_key_set();
    at::AutoDispatchBelowADInplaceOrView below;
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    std::vector<bool> told(outputs.size());
    const auto made = [&](std::size_t i) {
      const c10::impl::ForceDispatchKeyGuard as_outside(outside);
      told[i] = true;
      *last = i;
      OwnMemoryOfLeaf(targets.edges[At(variant.gradients[i])], outputs[i]);
      AccumulateEarly(targets, At(variant.gradients[i]), &outputs[i]);
    };
    const auto given = absl::MakeSpan(inputs);
    const auto results = absl::MakeSpan(outputs);
    ThrowIfError(early.empty() ? variant.executable->RunConsuming(given, symbols_, results)
                               : variant.executable->RunTelling(given, symbols_, results, early, made));
    for (std::size_t i : early) {
      if (!told[i] && outputs[i].defined()) made(i);
    }
  }
  autograd::variable_list result(plan_->gradients().size());
  for (std::size_t i = 0; i < outputs.size(); ++i) result[At(variant.gradients[i])] = std::move(outputs[i]);
  inputs.clear();
  if (any_copied) OwnMemory(result);
  return result;
}

void BackwardRun::Add(CompiledBackward& node) {
  const std::lock_guard lock(mutex_);
  if (nodes_.size() <= node.place()) nodes_.resize(node.place() + 1);
  nodes_[node.place()] = &node;
}

void BackwardRun::Remove(const CompiledBackward& node) {
  const std::lock_guard lock(mutex_);
  nodes_[node.place()] = nullptr;
}

BackwardRun::Pass& BackwardRun::PassOfNow() {
  const int id = autograd::get_current_graph_task_id();
  const std::lock_guard lock(mutex_);
  const auto [it, is_first] = passes_.try_emplace(id);
  Pass& pass = it->second;
  if (!is_first) return pass;
  pass.tangents.resize(plan_->tangents().size());
  pass.defined.assign(plan_->tangents().size(), '0');
  pass.handed.assign(plan_->gradients().size(), '0');
  pass.passed.resize(places_.size());
  pass.gradients.resize(plan_->input_gradients());
  pass.states.assign(plan_->input_classes().size(), Pass::State::kWaiting);
  AtEndOfBackward([run = shared_from_this(), id] {
    const std::lock_guard end(run->mutex_);
    run->passes_.erase(id);
  });
  return pass;
}

BackwardRun::Waiting BackwardRun::WaitingIn(const Pass& pass, CompiledBackward& running) {
  Waiting waiting;
  autograd::GraphTask& task = *PassUnderWay();
  const std::lock_guard lock(mutex_);
  const std::lock_guard task_lock(task.mutex_);
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    CompiledBackward* const node = nodes_[n];
    // One that the pass does not come to may be dying meanwhile.
    if (node == nullptr || pass.states[n] != Pass::State::kWaiting) continue;
    if (node != &running && (!task.nodes_in_graph_.contains(node) || !IsRun(task, node))) continue;
    if (task.dependencies_.contains(node)) {
      waiting.others = true;
    } else {
      waiting.ready.push_back(node);
    }
  }
  return waiting;
}

bool BackwardRun::EndsPass(CompiledBackward& node) {
  Pass& pass = PassOfNow();
  {
    const std::lock_guard lock(mutex_);
    pass.states[node.place()] = Pass::State::kComputed;
  }
  const Waiting waiting = WaitingIn(pass, node);
  return waiting.ready.empty() && !waiting.others;
}

}  // namespace framefuse
