#include "backends/runtime/recurrent_operator.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "backends/graph/operators.h"

namespace framefuse {
namespace {

using at::Tensor;
using torch::autograd::variable_list;

// What a network is beside its tensors, in the order of the schema.
struct Form {
  std::string kind;  // lstm, gru, rnn_tanh, rnn_relu
  bool has_biases;
  std::int64_t layers;
  bool both_ways;
  bool train;
};

using Results = std::tuple<Tensor, Tensor, Tensor>;  // the sequence, the last states; of an LSTM also its cells'

Results Run(const Form& form, const Tensor& input, at::TensorList states, at::TensorList weights) {
  constexpr double kNoDropout = 0.0;
  if (form.kind == "lstm") {
    auto [out, h, c] = at::lstm(input, states, weights, form.has_biases, form.layers, kNoDropout, form.train,
                                form.both_ways, /*batch_first=*/false);
    return {out.contiguous(), h.contiguous(), c.contiguous()};
  }
  const auto of = [&](auto network) {
    auto [out, h] = network(input, states[0], weights, form.has_biases, form.layers, kNoDropout, form.train,
                            form.both_ways, /*batch_first=*/false);
    return Results{out.contiguous(), h.contiguous(), at::empty({0}, input.options())};
  };
  if (form.kind == "gru") return of([](auto&&... a) { return at::gru(a...); });
  if (form.kind == "rnn_tanh") return of([](auto&&... a) { return at::rnn_tanh(a...); });
  TORCH_CHECK(form.kind == "rnn_relu", "framefuse::recurrent: no such network");
  return of([](auto&&... a) { return at::rnn_relu(a...); });
}

// Gradients of the input, the states, an LSTM's cells, and of all weights one behind the other.
using Gradients = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Gradients Differentiate(const Form& form, at::TensorList gradients, const Tensor& input, at::TensorList states,
                        at::TensorList weights, bool create_graph) {
  const auto leaf = [&](const Tensor& t) {
    return create_graph && t.requires_grad() ? t : t.detach().requires_grad_(true);
  };
  const Tensor of = leaf(input);
  variable_list hidden, parameters;
  for (const Tensor& t : states) hidden.push_back(leaf(t));
  for (const Tensor& t : weights) parameters.push_back(leaf(t));
  const auto [out, h, c] = Run(form, of, hidden, parameters);
  variable_list outputs = {out, h}, inputs = {of};
  if (form.kind == "lstm") outputs.push_back(c);
  inputs.insert(inputs.end(), hidden.begin(), hidden.end());
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  variable_list found = torch::autograd::grad(outputs, inputs, {gradients.begin(), gradients.begin() + outputs.size()},
                                              /*retain_graph=*/create_graph, create_graph, /*allow_unused=*/true);
  variable_list flat;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined()) found[i] = at::zeros_like(inputs[i]);
    if (i > hidden.size()) flat.push_back(found[i].reshape(-1));
  }
  const Tensor cells = hidden.size() > 1 ? found[2].contiguous() : at::empty({0}, input.options());
  return {found[0].contiguous(), found[1].contiguous(), cells, at::cat(flat)};
}

Results RunReal(std::string_view kind, const Tensor& input, at::TensorList states, at::TensorList weights,
                bool has_biases, std::int64_t layers, bool both_ways, bool train) {
  return Run({std::string(kind), has_biases, layers, both_ways, train}, input, states, weights);
}

// The engine or a plan calls it below autograd, which it needs itself.
Gradients DifferentiateReal(std::string_view kind, at::TensorList gradients, const Tensor& input, at::TensorList states,
                            at::TensorList weights, bool has_biases, std::int64_t layers, bool both_ways, bool train) {
  const c10::impl::ForceDispatchKeyGuard all(c10::impl::LocalDispatchKeySet(c10::impl::PODLocalDispatchKeySet{}));
  const at::AutoGradMode with_history(true);
  return Differentiate({std::string(kind), has_biases, layers, both_ways, train}, gradients, input, states, weights,
                       /*create_graph=*/false);
}

Results CallRecurrent(const Form& f, const Tensor& input, at::TensorList states, at::TensorList weights) {
  static const auto op = ir::RequireOp(ir::OpName::kRecurrent)->handle().typed<decltype(RunReal)>();
  return op.call(f.kind, input, states, weights, f.has_biases, f.layers, f.both_ways, f.train);
}

Gradients CallBackward(const Form& f, at::TensorList gradients, const Tensor& input, at::TensorList states,
                       at::TensorList weights) {
  static const auto op = ir::RequireOp(ir::OpName::kRecurrentBackward)->handle().typed<decltype(DifferentiateReal)>();
  return op.call(f.kind, gradients, input, states, weights, f.has_biases, f.layers, f.both_ways, f.train);
}

bool NeedsHistory(std::initializer_list<at::TensorList> lists) {
  if (!c10::GradMode::is_enabled()) return false;
  return std::any_of(lists.begin(), lists.end(), [](at::TensorList list) {
    return std::any_of(list.begin(), list.end(), [](const Tensor& t) { return t.requires_grad(); });
  });
}

struct RecurrentFunction : torch::autograd::Function<RecurrentFunction> {
  // `tensors`: the input, `states` states, the weights.
  static variable_list forward(torch::autograd::AutogradContext* ctx, at::TensorList tensors, std::int64_t states,
                               const Form& form) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto count = static_cast<std::size_t>(states);
    const auto [out, h, c] = CallRecurrent(form, tensors[0], tensors.slice(1, count), tensors.slice(1 + count));
    ctx->save_for_backward(tensors.vec());
    if (form.kind != "lstm") ctx->mark_non_differentiable({c});
    ctx->saved_data["kind"] = form.kind;
    ctx->saved_data["has_biases"] = form.has_biases;
    ctx->saved_data["layers"] = form.layers;
    ctx->saved_data["both_ways"] = form.both_ways;
    ctx->saved_data["train"] = form.train;
    ctx->saved_data["states"] = states;
    return {out, h, c};
  }

  static variable_list backward(torch::autograd::AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::TensorList tensors(saved);
    const auto states = static_cast<std::size_t>(ctx->saved_data["states"].toInt());
    const Form form{ctx->saved_data["kind"].toStringRef(), ctx->saved_data["has_biases"].toBool(),
                    ctx->saved_data["layers"].toInt(), ctx->saved_data["both_ways"].toBool(),
                    ctx->saved_data["train"].toBool()};
    const at::TensorList weights = tensors.slice(1 + states);
    const auto [of_input, of_state, of_cells, of_weights] =
        CallBackward(form, gradients, tensors[0], tensors.slice(1, states), weights);
    variable_list result = {of_input, of_state};
    if (states > 1) result.push_back(of_cells);
    std::int64_t begin = 0;
    for (const Tensor& w : weights) {
      result.push_back(of_weights.narrow(0, begin, w.numel()).view(w.sizes()).clone());  // in a storage of its own
      begin += w.numel();
    }
    result.resize(tensors.size() + 2);  // one for the number, one for the form
    return result;
  }
};

Results RecurrentAutograd(std::string_view kind, const Tensor& input, at::TensorList states, at::TensorList weights,
                          bool has_biases, std::int64_t layers, bool both_ways, bool train) {
  const Form form{std::string(kind), has_biases, layers, both_ways, train};
  if (!NeedsHistory({input, states, weights})) {
    at::AutoDispatchBelowADInplaceOrView below;
    return CallRecurrent(form, input, states, weights);
  }
  variable_list tensors = {input};
  tensors.insert(tensors.end(), states.begin(), states.end());
  tensors.insert(tensors.end(), weights.begin(), weights.end());
  const variable_list results =
      RecurrentFunction::apply(at::TensorList(tensors), static_cast<std::int64_t>(states.size()), form);
  return {results[0], results[1], results[2]};
}

Gradients BackwardAutograd(std::string_view kind, at::TensorList gradients, const Tensor& input, at::TensorList states,
                           at::TensorList weights, bool has_biases, std::int64_t layers, bool both_ways, bool train) {
  const Form form{std::string(kind), has_biases, layers, both_ways, train};
  if (NeedsHistory({gradients, input, states, weights})) {
    return Differentiate(form, gradients, input, states, weights, /*create_graph=*/true);
  }
  at::AutoDispatchBelowADInplaceOrView below;
  return CallBackward(form, gradients, input, states, weights);
}

}  // namespace

void RegisterRecurrentOperator() {
  // Never destroyed: deregistration at exit would race with torch's own.
  static auto* const library = [] {
    auto* made = new torch::Library(torch::Library::FRAGMENT, "framefuse", std::nullopt, __FILE__, __LINE__);
    made->def(
        "recurrent(str kind, Tensor input, Tensor[] states, Tensor[] weights, bool has_biases, int layers, bool "
        "both_ways, bool train) -> (Tensor, Tensor, Tensor)");
    made->def(
        "recurrent_backward(str kind, Tensor[] gradients, Tensor input, Tensor[] states, Tensor[] weights, bool "
        "has_biases, int layers, bool both_ways, bool train) -> (Tensor, Tensor, Tensor, Tensor)");
    made->impl("recurrent", torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(RunReal)));
    made->impl("recurrent", torch::dispatch(c10::DispatchKey::Autograd, TORCH_FN(RecurrentAutograd)));
    made->impl("recurrent_backward", torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(DifferentiateReal)));
    made->impl("recurrent_backward", torch::dispatch(c10::DispatchKey::Autograd, TORCH_FN(BackwardAutograd)));
    return made;
  }();
  (void)library;
}

}  // namespace framefuse
