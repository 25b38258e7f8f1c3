#include "backends/runtime/cond_operator.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/is_nonzero.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "backends/graph/backend.h"
#include "backends/graph/grad_fn_name.h"
#include "backends/graph/operators.h"
#include "backends/graph/recording_probe.h"
#include "backends/passes/pass.h"
#include "backends/runtime/aten_sequence.h"
#include "backends/runtime/cond_gradients.h"
#include "backends/runtime/differentiable_ops.h"
#include "backends/runtime/generator_states.h"
#include "backends/runtime/leaf_turns.h"
#include "backends/runtime/torch_error.h"
#include "common/check.h"
#include "common/index.h"

namespace framefuse {
namespace {

using torch::autograd::variable_list;

constexpr std::size_t kMaxBranches = 4096;  // beyond it the table starts anew: programs that make graphs for ever

// What a call of the operator says beside its tensors. A copy outlives the call in autograd's node.
struct Texts {
  std::string branches[2];  // taken if the condition is false, if it is true
  std::string
      backward[2];  // operands `saved`, then gradients of the results `with_gradient`: those of `differentiable`
  std::vector<std::int64_t> saved;
  std::vector<std::int64_t> differentiable;
  std::vector<std::int64_t> with_gradient;
  std::vector<std::int64_t> random_devices;  // whose generators the branches may move: a CUDA device's index, or -1
  std::string backend;
  at::TensorList originals{};  // operands whose stand-ins say where gradients go (BehindNodesOfTheirOwn); for the call
};

std::shared_ptr<const ir::Graph> ParseBranch(const std::string& text) {
  static std::mutex mutex;
  static auto* known = new absl::flat_hash_map<std::string, std::shared_ptr<const ir::Graph>>;
  {
    const std::lock_guard lock(mutex);
    if (const auto it = known->find(text); it != known->end()) return it->second;
  }
  const c10::impl::ExcludeDispatchKeyGuard real(c10::DispatchKey::Fake);  // its constants outlive a capture
  auto graph = std::make_shared<const ir::Graph>(ValueOrThrow(ir::Parse(text)));
  const std::lock_guard lock(mutex);
  if (known->size() >= kMaxBranches) known->clear();
  return known->try_emplace(text, std::move(graph)).first->second;
}

// Of a branch that is not known while the stream is recorded: null.
absl::StatusOr<std::shared_ptr<Plan>> CompileBranch(const std::string& text, const std::string& backend) {
  static std::mutex mutex;
  static auto* known = new absl::flat_hash_map<std::pair<std::string, std::string>, std::shared_ptr<Plan>>;
  const auto key = std::make_pair(backend, text);
  {
    const std::lock_guard lock(mutex);
    if (const auto it = known->find(key); it != known->end()) return it->second;
  }
  if (IsStreamRecorded()) return nullptr;
  Backend* maker = FindBackend(backend);
  if (maker == nullptr) return absl::InvalidArgumentError(absl::StrCat("cond: no backend is called ", backend));
  absl::StatusOr<ir::Graph> graph = ir::Parse(text);
  if (!graph.ok()) return graph.status();
  auto plan = maker->Compile(*std::move(graph), BackendOptions());
  if (!plan.ok()) return plan.status();
  const std::lock_guard lock(mutex);
  if (known->size() >= kMaxBranches) known->clear();
  return known->try_emplace(key, *std::move(plan)).first->second;
}

std::vector<std::int64_t> Concrete(const std::vector<ir::Dim>& dims) {
  std::vector<std::int64_t> result;
  for (const ir::Dim& d : dims) result.push_back(d.constant());
  return result;
}

// Who calls the operator outside a graph of ours may give operands laid out in another way than the graph says.
at::Tensor LaidOutAs(const at::Tensor& operand, const ir::Value& value) {
  const std::vector<std::int64_t> sizes = Concrete(value.sizes);
  const std::vector<std::int64_t> strides = Concrete(value.strides);
  TORCH_CHECK(operand.sizes() == c10::IntArrayRef(sizes), "cond: an operand has sizes ", operand.sizes(), ", not ",
              c10::IntArrayRef(sizes));
  if (operand.strides() == c10::IntArrayRef(strides)) return operand;
  return at::empty_strided(sizes, strides, operand.options()).copy_(operand);
}

std::vector<at::Tensor> InputsOf(const ir::Graph& branch, at::TensorList operands) {
  TORCH_CHECK(branch.inputs.size() == operands.size(), "cond: ", operands.size(), " operands for ",
              branch.inputs.size());
  std::vector<at::Tensor> inputs;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    inputs.push_back(LaidOutAs(operands[i], branch.value(branch.inputs[i].value)));
  }
  return inputs;
}

std::vector<at::Tensor> RunUncompiled(ir::Graph graph, at::TensorList operands) {
  MakeDifferentiable(graph);
  const std::vector<at::Tensor> inputs = InputsOf(graph, operands);
  std::vector<at::Tensor> outputs(graph.outputs.size());
  const std::unique_ptr<AtenSequence> sequence = ValueOrThrow(AtenSequence::CreateRewritten(std::move(graph)));
  ThrowIfError(sequence->Run(inputs, {}, absl::MakeSpan(outputs)));
  return outputs;
}

// Through autograd, operator by operator: for derivatives of derivatives. Without the writes in place of a recorded
// backward: eager's formulas make none where the backward is to be differentiated.
std::vector<at::Tensor> RunDifferentiable(const at::Tensor& pred, const std::string (&branches)[2],
                                          at::TensorList operands) {
  ir::Graph graph = *ParseBranch(branches[at::is_nonzero(pred) ? 1 : 0]);
  const absl::Status status = Functionalize(graph).status();  // the graph is unchanged where there is no other form
  if (!absl::IsUnimplemented(status)) ThrowIfError(status);
  return RunUncompiled(std::move(graph), operands);
}

std::vector<at::Tensor> RunBranch(const at::Tensor& pred, std::string_view true_branch, std::string_view false_branch,
                                  at::TensorList operands, std::string_view backend) {
  const std::string text(at::is_nonzero(pred) ? true_branch : false_branch);
  const std::shared_ptr<Plan> plan = ValueOrThrow(CompileBranch(text, std::string(backend)));
  if (plan == nullptr) return RunUncompiled(*ParseBranch(text), operands);
  return ValueOrThrow(plan->Run(InputsOf(*ParseBranch(text), operands), {}));
}

std::vector<at::Tensor> ResultsLike(std::string_view branch, const c10::Device& device) {
  const std::shared_ptr<const ir::Graph> graph = ParseBranch(std::string(branch));
  std::vector<at::Tensor> results;
  for (const ir::Output& out : graph->outputs) {
    const ir::Value& v = graph->value(out.value);
    results.push_back(at::empty_strided(Concrete(v.sizes), Concrete(v.strides), at::device(device).dtype(v.dtype)));
  }
  return results;
}

// The operator's C++ signature, in the order of the schema.
using Kernel = std::vector<at::Tensor>(const at::Tensor&, std::string_view, std::string_view, at::TensorList,
                                       std::string_view, std::string_view, c10::IntArrayRef, c10::IntArrayRef,
                                       c10::IntArrayRef, c10::IntArrayRef, std::string_view);

std::vector<at::Tensor> CallOperator(const at::Tensor& pred, const std::string (&branches)[2], at::TensorList operands,
                                     const std::string& backend, bool random) {
  static const auto plain = ir::RequireOp(ir::OpName::kCond)->handle().typed<Kernel>();
  static const auto drawing = ir::RequireOp(ir::OpName::kCondRandom)->handle().typed<Kernel>();
  return (random ? drawing : plain).call(pred, branches[1], branches[0], operands, "", "", {}, {}, {}, {}, backend);
}

at::Tensor CallRngStates(c10::IntArrayRef devices) {
  static const auto op = ir::RequireOp(ir::OpName::kRngStates)->handle().typed<at::Tensor(c10::IntArrayRef)>();
  return op.call(devices);
}

using Replay = std::vector<at::Tensor>(const at::Tensor&, std::string_view, std::string_view, at::TensorList,
                                       const at::Tensor&, c10::IntArrayRef, std::string_view);

std::vector<at::Tensor> CallReplay(const at::Tensor& pred, const std::string (&branches)[2], at::TensorList operands,
                                   const at::Tensor& states, c10::IntArrayRef devices, const std::string& backend) {
  static const auto op = ir::RequireOp(ir::OpName::kCondReplay)->handle().typed<Replay>();
  return op.call(pred, branches[1], branches[0], operands, states, devices, backend);
}

bool NeedsHistory(at::TensorList tensors) {
  return c10::GradMode::is_enabled() &&
         std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& t) { return t.requires_grad(); });
}

// Which gradients there are, by either branch. The `inputs` of the backward branches are saved operands and then
// gradients, of which those that are undefined become zeros.
std::vector<bool> Reached(const std::string (&backward)[2], std::size_t saved, variable_list* inputs) {
  std::vector<bool> given(inputs->size(), false);
  const std::shared_ptr<const ir::Graph> graphs[] = {ParseBranch(backward[0]), ParseBranch(backward[1])};
  for (std::size_t i = saved; i < inputs->size(); ++i) {
    given[i] = (*inputs)[i].defined();
    if (!given[i]) (*inputs)[i] = ZerosForInput(*graphs[0], i);
  }
  const auto reached_from = [&] {
    std::vector<bool> reached = ReachedOutputs(*graphs[0], given);
    const std::vector<bool> other = ReachedOutputs(*graphs[1], given);
    for (std::size_t i = 0; i < reached.size(); ++i) reached[i] = reached[i] || other[i];
    return reached;
  };
  std::vector<bool> reached = reached_from();
  const bool has_one = std::find(given.begin(), given.end(), true) != given.end();
  if (!has_one || std::find(reached.begin(), reached.end(), false) == reached.end()) return reached;
  // One that is the same whatever the gradients are (the zeros of copysign's second operand) is there with any of them.
  std::fill(given.begin() + static_cast<std::ptrdiff_t>(saved), given.end(), true);
  const std::vector<bool> ever = reached_from();
  for (std::size_t i = 0; i < reached.size(); ++i) reached[i] = reached[i] || !ever[i];
  return reached;
}

// Of the results' histories: what both branches call them, or nothing.
c10::List<std::string> NamesOf(const Texts& texts) {
  c10::List<std::string> names;
  const std::shared_ptr<const ir::Graph> graphs[] = {ParseBranch(texts.branches[0]), ParseBranch(texts.branches[1])};
  for (std::size_t i = 0; i < graphs[0]->outputs.size(); ++i) {
    const std::string& name = graphs[0]->outputs[i].grad_fn;
    names.push_back(name == graphs[1]->outputs[i].grad_fn ? name : "");
  }
  return names;
}

// Below autograd a conditional is its two branches; this node asks for the branches' gradients.
struct CondFunction : torch::autograd::Function<CondFunction> {
  static variable_list forward(torch::autograd::AutogradContext* ctx, const at::Tensor& pred, at::TensorList operands,
                               const Texts& texts) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->set_materialize_grads(false);
    const bool random = !texts.random_devices.empty();
    variable_list kept = {pred};
    if (random) kept.push_back(CallRngStates(texts.random_devices));
    variable_list results = CallOperator(pred, texts.branches, operands, texts.backend, random);
    const at::TensorList to_save = texts.originals.empty() ? operands : texts.originals;
    for (const std::int64_t i : texts.saved) kept.push_back(to_save[At(i)]);
    c10::List<bool> histories;
    for (const at::Tensor& t : kept) histories.push_back(t.grad_fn() != nullptr);
    ctx->saved_data["histories"] = std::move(histories);
    ctx->save_for_backward(std::move(kept));
    std::vector<bool> has_gradient(results.size(), false);
    for (const std::int64_t i : texts.with_gradient) has_gradient[At(i)] = true;
    variable_list without;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!has_gradient[i]) without.push_back(results[i]);
    }
    ctx->mark_non_differentiable(without);
    ctx->saved_data["false"] = texts.backward[0];
    ctx->saved_data["true"] = texts.backward[1];
    ctx->saved_data["backend"] = texts.backend;
    ctx->saved_data["random_devices"] = texts.random_devices;
    ctx->saved_data["operands"] = static_cast<std::int64_t>(operands.size());
    ctx->saved_data["differentiable"] = texts.differentiable;
    ctx->saved_data["with_gradient"] = texts.with_gradient;
    ctx->saved_data["names"] = NamesOf(texts);
    return results;
  }

  // As eager's nodes do.
  static void RefuseDetached(const c10::List<bool>& had_histories, const variable_list& kept) {
    for (std::size_t i = 0; i < kept.size(); ++i) {
      TORCH_CHECK(!had_histories[i] || kept[i].grad_fn(),
                  "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_()."
                  "This is not supported, please use out-of-place `.detach()` instead");
    }
  }

  static variable_list backward(torch::autograd::AutogradContext* ctx, const variable_list& gradients) {
    variable_list kept = ctx->get_saved_variables();
    RefuseDetached(ctx->saved_data["histories"].toBoolList(), kept);
    const at::Tensor pred = kept[0];
    const std::vector<std::int64_t> devices = ctx->saved_data["random_devices"].toIntVector();
    variable_list inputs(kept.begin() + (devices.empty() ? 1 : 2), kept.end());
    for (const std::int64_t i : ctx->saved_data["with_gradient"].toIntVector()) {
      inputs.push_back(gradients[At(i)]);
    }
    const std::string branches[] = {ctx->saved_data["false"].toStringRef(), ctx->saved_data["true"].toStringRef()};
    const std::vector<bool> reached = Reached(branches, kept.size() - (devices.empty() ? 1 : 2), &inputs);
    const std::string& backend = ctx->saved_data["backend"].toStringRef();
    // With a history of its own it breaks a capture: the condition has no value yet.
    const variable_list found = !devices.empty()       ? CallReplay(pred, branches, inputs, kept[1], devices, backend)
                                : NeedsHistory(inputs) ? RunDifferentiable(pred, branches, inputs)
                                                       : CallOperator(pred, branches, inputs, backend, false);
    // The condition's, the operands', and one for `texts`.
    variable_list result(static_cast<std::size_t>(ctx->saved_data["operands"].toInt()) + 2);
    const std::vector<std::int64_t> of = ctx->saved_data["differentiable"].toIntVector();
    for (std::size_t i = 0; i < of.size(); ++i) {
      if (reached[i]) result[static_cast<std::size_t>(of[i]) + 1] = found[i];
    }
    return result;
  }
};

std::string NameOfResult(const torch::autograd::Node& node, std::uint32_t output) {
  const auto* cond = dynamic_cast<const torch::autograd::CppNode<CondFunction>*>(&node);
  return cond == nullptr ? "" : cond->ctx_.saved_data.at("names").toListRef()[output].toStringRef();
}

// Eager has one node for the branches of torch.cond, but all of a checkpoint's: its backward says the turns. By
// operand; empty: none.
std::vector<std::int64_t> TurnsOfOperands(const std::string& true_backward, c10::IntArrayRef differentiable,
                                          std::size_t operands) {
  const std::shared_ptr<const ir::Graph> backward = ParseBranch(true_backward);
  std::vector<std::int64_t> order(operands, -1);
  for (std::size_t i = 0; i < differentiable.size(); ++i) {
    const std::vector<std::int32_t>& turns = backward->outputs[i].turns;
    if (turns.empty()) return {};
    order.at(At(differentiable[i])) = turns.front();
  }
  return order;
}

std::vector<std::int64_t> OrderInCheckpoint(const torch::autograd::Node& node) {
  const auto* cond = dynamic_cast<const torch::autograd::CppNode<CondFunction>*>(&node);
  if (cond == nullptr) return {};
  std::vector<std::int64_t> order =
      TurnsOfOperands(cond->ctx_.saved_data.at("true").toStringRef(),
                      cond->ctx_.saved_data.at("differentiable").toIntVector(), node.num_outputs() - 1);
  if (!order.empty()) order.insert(order.begin(), -1);  // the condition's edge is the first
  return order;
}

template <bool random>
std::vector<at::Tensor> CondAutograd(const at::Tensor& pred, std::string_view true_branch,
                                     std::string_view false_branch, at::TensorList operands,
                                     std::string_view true_backward, std::string_view false_backward,
                                     c10::IntArrayRef saved, c10::IntArrayRef differentiable,
                                     c10::IntArrayRef with_gradient, c10::IntArrayRef random_devices,
                                     std::string_view backend) {
  Texts texts{{std::string(false_branch), std::string(true_branch)},
              {std::string(false_backward), std::string(true_backward)},
              saved.vec(),
              differentiable.vec(),
              with_gradient.vec(),
              random_devices.vec(),
              std::string(backend),
              {}};
  // A capture says `with_gradient` where there is a gradient. Another tracer's condition has no value.
  const bool traced = c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake) ||
                      pred.unsafeGetTensorImpl()->is_python_dispatch();
  if (!with_gradient.empty() && c10::GradMode::is_enabled()) {
    if (traced) return CondFunction::apply(pred, operands, texts);
    texts.originals = operands;
    const std::vector<at::Tensor> behind =
        BehindNodesOfTheirOwn(operands, TurnsOfOperands(texts.backward[1], texts.differentiable, operands.size()));
    return CondFunction::apply(pred, at::TensorList(behind), texts);
  }
  if (NeedsHistory(operands) && !traced) {
    return RunDifferentiable(pred, texts.branches, operands);
  }
  at::AutoDispatchBelowADInplaceOrView below;
  return CallOperator(pred, texts.branches, operands, texts.backend, random);
}

std::vector<at::Tensor> CondReal(const at::Tensor& pred, std::string_view true_branch, std::string_view false_branch,
                                 at::TensorList operands, std::string_view /*true_backward*/,
                                 std::string_view /*false_backward*/, c10::IntArrayRef /*saved*/,
                                 c10::IntArrayRef /*differentiable*/, c10::IntArrayRef /*with_gradient*/,
                                 c10::IntArrayRef /*random_devices*/, std::string_view backend) {
  return RunBranch(pred, true_branch, false_branch, operands, backend);
}

std::vector<at::Tensor> CondMeta(const at::Tensor& /*pred*/, std::string_view true_branch,
                                 std::string_view /*false_branch*/, at::TensorList /*operands*/,
                                 std::string_view /*true_backward*/, std::string_view /*false_backward*/,
                                 c10::IntArrayRef /*saved*/, c10::IntArrayRef /*differentiable*/,
                                 c10::IntArrayRef /*with_gradient*/, c10::IntArrayRef /*random_devices*/,
                                 std::string_view /*backend*/) {
  return ResultsLike(true_branch, c10::Device(c10::DeviceType::Meta));
}

at::Tensor RngStatesReal(c10::IntArrayRef devices) { return StatesOfGenerators(devices); }

at::Tensor RngStatesMeta(c10::IntArrayRef devices) {
  return at::empty({SizeOfStates(devices)}, at::device(c10::DeviceType::Meta).dtype(at::kByte));
}

// As when the branch was run forward; what the program has drawn since is not touched.
std::vector<at::Tensor> ReplayReal(const at::Tensor& pred, std::string_view true_branch, std::string_view false_branch,
                                   at::TensorList operands, const at::Tensor& states, c10::IntArrayRef devices,
                                   std::string_view backend) {
  const at::Tensor now = StatesOfGenerators(devices);
  const absl::Cleanup restore = [&] { SetGenerators(devices, now); };
  SetGenerators(devices, states);
  return RunBranch(pred, true_branch, false_branch, operands, backend);
}

// Differentiated itself: the same numbers again, through autograd.
std::vector<at::Tensor> ReplayAutograd(const at::Tensor& pred, std::string_view true_branch,
                                       std::string_view false_branch, at::TensorList operands, const at::Tensor& states,
                                       c10::IntArrayRef devices, std::string_view backend) {
  const std::string branches[] = {std::string(false_branch), std::string(true_branch)};
  if (!NeedsHistory(operands)) {
    at::AutoDispatchBelowADInplaceOrView below;
    return CallReplay(pred, branches, operands, states, devices, std::string(backend));
  }
  at::is_nonzero(pred);  // breaks a capture before a state is asked for
  const at::Tensor now = StatesOfGenerators(devices);
  const absl::Cleanup restore = [&] { SetGenerators(devices, now); };
  SetGenerators(devices, states);
  return RunDifferentiable(pred, branches, operands);
}

std::vector<at::Tensor> ReplayMeta(const at::Tensor& /*pred*/, std::string_view true_branch,
                                   std::string_view /*false_branch*/, at::TensorList /*operands*/,
                                   const at::Tensor& /*states*/, c10::IntArrayRef /*devices*/,
                                   std::string_view /*backend*/) {
  return ResultsLike(true_branch, c10::Device(c10::DeviceType::Meta));
}

bool IsCond(const ir::Node& node) { return ir::Has(node.op, ir::OpFact::kConditional); }

void AddReplay(torch::Library& library) {
  using c10::DispatchKey;
  library.def(
      "cond.replay(Tensor pred, str true_branch, str false_branch, Tensor[] operands, Tensor states, int[] devices, "
      "str backend='aten') -> Tensor[]");
  library.impl("cond.replay", torch::dispatch(DispatchKey::CPU, TORCH_FN(ReplayReal)));
  library.impl("cond.replay", torch::dispatch(DispatchKey::CUDA, TORCH_FN(ReplayReal)));
  library.impl("cond.replay", torch::dispatch(DispatchKey::Meta, TORCH_FN(ReplayMeta)));
  library.impl("cond.replay", torch::dispatch(DispatchKey::Autograd, TORCH_FN(ReplayAutograd)));
  const std::vector<at::Tag> random = {at::Tag::nondeterministic_seeded};
  library.def("rng_states(int[] devices) -> Tensor", random);
  library.impl("rng_states", torch::dispatch(DispatchKey::CompositeExplicitAutograd, TORCH_FN(RngStatesReal)));
  library.impl("rng_states", torch::dispatch(DispatchKey::Meta, TORCH_FN(RngStatesMeta)));
}

}  // namespace

void RegisterCondOperator() {
  ir::NameGradFnsBy(NameOfResult);
  ir::OrderEdgesBy(OrderInCheckpoint);
  static const bool registered = [] {
    // Never destroyed: deregistration at exit would race with torch's own.
    static auto* library = new torch::Library(torch::Library::DEF, "framefuse", std::nullopt, __FILE__, __LINE__);
    const auto schema = [](const char* name) {
      return absl::StrCat(
          name,
          "(Tensor pred, str true_branch, str false_branch, Tensor[] operands, *, str true_backward='', "
          "str false_backward='', int[] saved=[], int[] differentiable=[], int[] with_gradient=[], "
          "int[] random_devices=[], str backend='aten') -> Tensor[]");
    };
    const auto add = [&](const char* name, auto autograd, const std::vector<at::Tag>& tags) {
      library->def(schema(name).c_str(), tags);
      library->impl(name, torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(CondReal)));
      library->impl(name, torch::dispatch(c10::DispatchKey::CUDA, TORCH_FN(CondReal)));
      library->impl(name, torch::dispatch(c10::DispatchKey::Meta, TORCH_FN(CondMeta)));
      library->impl(name, torch::dispatch(c10::DispatchKey::Autograd, autograd));
    };
    add("cond", TORCH_FN(CondAutograd<false>), {});
    add("cond.random", TORCH_FN(CondAutograd<true>), {at::Tag::nondeterministic_seeded});
    AddReplay(*library);
    return true;
  }();
  (void)registered;
}

absl::Status PrepareConds(ir::Graph& graph, const std::string& backend) {
  for (ir::Node& node : graph.nodes) {
    if (!IsCond(node)) continue;
    c10::IValue& by = node.args[At(node.op->FindArgument("backend"))].constant;
    if (!backend.empty()) by = backend;
    for (const char* branch : {"true_branch", "false_branch"}) {
      const ir::Arg& text = node.args[At(node.op->FindArgument(branch))];
      if (auto plan = CompileBranch(text.constant.toStringRef(), by.toStringRef()); !plan.ok()) return plan.status();
    }
  }
  return absl::OkStatus();
}

}  // namespace framefuse
