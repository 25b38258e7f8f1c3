// BackwardRun, third part: what a forward run saves for its backward.
#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "backends/autograd/backward_run.h"
#include "backends/autograd/differentiable_plans.h"
#include "common/index.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;

// Memory that the user can reach through an output: a write there must be noticed by what is saved of it.
class MemoryOf {
 public:
  explicit MemoryOf(absl::Span<const at::Tensor> outputs) {
    for (const at::Tensor& t : outputs) {
      if (t.defined() && t.has_storage()) places_.emplace_back(t.storage().data(), &t);
    }
    std::sort(places_.begin(), places_.end());
  }
  void ShareVersionWith(const at::Tensor& saved) const {
    if (!saved.has_storage()) return;
    const void* const place = saved.storage().data();
    const auto first = std::lower_bound(places_.begin(), places_.end(), Place{place, nullptr});
    for (auto at = first; at != places_.end() && at->first == place; ++at) {
      if (!at->second->storage().is_alias_of(saved.storage())) continue;
      autograd::impl::set_version_counter(saved, autograd::impl::version_counter(*at->second));
    }
  }

 private:
  using Place = std::pair<const void*, const at::Tensor*>;
  absl::InlinedVector<Place, 8> places_;  // in the order of the memory, then of the outputs
};

// Eager's nodes that have saved a view keep its history, also where the program detaches the input in place.
at::Tensor AsReadBy(const SavedValue& s, const at::Tensor& input) {
  if (!s.reads.view || !input.defined() || !input.grad_fn()) return input;
  at::Tensor alias = input.detach();
  autograd::impl::set_gradient_edge(alias, autograd::impl::gradient_edge(input));
  return alias;
}

// Hooks may save something else.
bool KeepsItsMemory(const at::Tensor& t) {
  return t.defined() && t.layout() == c10::Layout::Strided && t.has_storage() &&
         !at::SavedTensorDefaultHooks::get_hooks().has_value();
}

// Where hooks keep saved tensors eager's nodes do not ask whether they were detached.
autograd::SavedVariable SavedInput(std::size_t saved, const SavedValue& s, const at::Tensor& input,
                                   DetachedResults* detached) {
  const bool hooks = at::SavedTensorDefaultHooks::get_hooks().has_value();
  if (s.reads.itself && !hooks && !s.saved_by.empty() && input.defined()) detached->WatchInput(saved, input);
  return autograd::SavedVariable(s.reads.itself && hooks ? input : AsReadBy(s, input), /*is_output=*/false);
}

}  // namespace

void BackwardRun::SaveInputs(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                             absl::FunctionRef<void()> make_nodes) {
  symbols_.assign(symbols.begin(), symbols.end());
  saved_.resize(plan_->saved().size());
  saved_.set_for_many(HasGates());
  const auto as_it_is = [&inputs](std::int32_t input) -> UnsavedInput {
    const at::Tensor& t = inputs[At(input)];
    const bool counts = t.defined() && !t.is_inference();
    return {t.defined() ? t.tensor_data() : t, counts ? static_cast<std::int64_t>(t._version()) : 0};
  };
  for (std::size_t i = 0; i < saved_.size(); ++i) {
    const SavedValue& s = plan_->saved()[i];
    if (s.IsInputItself()) saved_[i] = SavedInput(i, s, inputs[At(s.index)], &detached_);
    if (s.reads.view && KeepsItsMemory(inputs[At(s.index)])) {
      memory_.resize(saved_.size());
      memory_[i] = {inputs[At(s.index)].storage(), inputs[At(s.index)].storage_offset()};
    }
    if (s.of_written < 0) continue;
    const bool uncounted = !s.is_new && plan_->joint().inputs[At(s.of_written)].mutated_uncounted;
    if (!uncounted) continue;
    written_uncounted_.push_back({i, as_it_is(s.of_written)});
    if (!plan_->differentiable().AsksNoVersion(i)) continue;
    written_uncounted_.back().input = {inputs[At(s.of_written)].variable_data(), /*version=*/0};
  }
  inputs_.reserve(plan_->differentiable().inputs().size());
  for (std::int32_t i : plan_->differentiable().inputs()) inputs_.push_back(as_it_is(i));
  for (std::int32_t i : plan_->differentiable().read_by_data()) read_by_data_.push_back(as_it_is(i).memory);
  make_nodes();
  for (std::size_t i = 0; i < saved_.size(); ++i) {
    const SavedValue& s = plan_->saved()[i];
    if (s.of_written < 0 || !inputs[At(s.of_written)].requires_grad()) continue;
    // A write without gradients leaves the history as it is.
    if (s.is_new && !plan_->joint().inputs[At(s.of_written)].mutated_without_grad) continue;
    edges_of_written_.resize(saved_.size());
    edges_of_written_[i] = autograd::impl::gradient_edge(inputs[At(s.of_written)]);
  }
}

void BackwardRun::SaveOutputs(absl::Span<const at::Tensor> outputs, std::size_t visible_outputs,
                              const autograd::Node* only, absl::FunctionRef<at::Tensor(std::int32_t)> seen) {
  const MemoryOf visible(outputs.subspan(0, visible_outputs));
  for (std::size_t i = 0; i < saved_.size(); ++i) {
    const SavedValue& s = plan_->saved()[i];
    if (s.is_input || s.is_copy) continue;
    const at::Tensor& t = outputs[At(s.index)];
    const bool is_visible = At(s.index) < visible_outputs;
    if (!is_visible) visible.ShareVersionWith(t);
    // Where hooks keep saved tensors eager's nodes do not ask.
    const bool is_asked = HasGates() && !at::SavedTensorDefaultHooks::get_hooks().has_value();
    if (is_asked && !s.saved_by.empty()) detached_.Watch(i, is_visible ? seen(s.index) : t);
    if (s.of_written >= 0) {
      const at::Tensor start = t.detach();
      const bool has_history = !edges_of_written_.empty() && edges_of_written_[i].is_valid();
      if (has_history) autograd::impl::set_gradient_edge(start, edges_of_written_[i]);
      saved_[i] = autograd::SavedVariable(start, /*is_output=*/false);
      continue;
    }
    if (is_visible && t.requires_grad() && t.grad_fn().get() != only) {
      // A gate's, which leads here: its history is not asked for, and would make a cycle.
      saved_[i] = autograd::SavedVariable(t.detach(), /*is_output=*/false);
      continue;
    }
    saved_[i] = autograd::SavedVariable(t, /*is_output=*/is_visible && t.requires_grad());
  }
  edges_of_written_.clear();
}

void BackwardRun::SaveCopies(absl::Span<const at::Tensor> inputs, absl::Span<const at::Tensor> outputs,
                             std::size_t visible_outputs, absl::FunctionRef<at::Tensor(std::int32_t)> seen) {
  for (std::size_t i = 0; i < saved_.size(); ++i) {
    const SavedValue& s = plan_->saved()[i];
    if (!s.is_copy) continue;
    const at::Tensor& t = (s.is_input ? inputs : outputs)[At(s.index)];
    const bool visible = !s.is_input && At(s.index) < visible_outputs;
    if (visible && !t.storage().is_alias_of(seen(s.index).storage())) {  // a written input lies in another way
      saved_[i] = autograd::SavedVariable(t.detach(), /*is_output=*/false);
      continue;
    }
    const at::Tensor copy = t.variable_data();
    const at::Tensor counted = s.counts_with < 0 ? at::Tensor() : seen(s.counts_with);
    const bool counts = counted.defined() && !counted.is_inference() && !copy.is_inference();
    if (counts) autograd::impl::set_version_counter(copy, autograd::impl::version_counter(counted));
    saved_[i] = autograd::SavedVariable(copy, /*is_output=*/false);
  }
}

}  // namespace framefuse
