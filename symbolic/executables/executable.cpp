#include "symbolic/executables/executable.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/autograd/output_history.h"
#include "backends/graph/backend.h"
#include "backends/graph/collectives.h"
#include "backends/graph/graph.h"
#include "backends/graph/input_writes.h"
#include "backends/graph/operators.h"
#include "backends/graph/sized_plan.h"
#include "backends/graph/unsaid_warnings.h"
#include "frame_eval/hook.h"
#include "symbolic/executables/random_state.h"
#include "symbolic/tracing/version_counter.h"

namespace framefuse {
namespace {

using tracing::CounterOf;
using tracing::CountWithOtherMemory;
using tracing::ShareCounter;

// A torch exception becomes the Python error that eager would raise.
void SetPythonError(const absl::Status& status) {
  const std::exception_ptr exception = TorchErrorOf(status);
  if (exception == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, std::string(status.message()).c_str());
    return;
  }
  const auto rethrow = [&]() -> PyObject* {
    HANDLE_TH_ERRORS
    std::rethrow_exception(exception);
    END_HANDLE_TH_ERRORS
  };
  rethrow();
}

// An input and how often eager's operators would have counted its version up.
struct WrittenInput {
  std::size_t input = 0;
  std::int32_t bumps = 0;
  std::int32_t of_plan = 0;    // how often the plan counts it up
  bool counted_early = false;  // only counted, by t_() and its like of an alias; or read by the backward
  bool followed = false;       // by autograd
};

// A view that torch lets nobody write where autograd follows: of a leaf, or made in a way that has no history to renew.
bool RefusesWrites(const at::Tensor& t) {
  const auto* view = torch::autograd::impl::get_view_autograd_meta(t);
  if (view == nullptr || !view->has_bw_view()) return false;
  // A leaf may be a view itself: of what has no gradient, from before it was asked for one.
  if (t.requires_grad() && view->get_backward_view().base_.is_leaf()) return true;
  return view->get_creation_meta() != torch::autograd::CreationMeta::DEFAULT;
}

// Of a plan that writes inputs as no plan can; Python runs the frame, and gets torch's error if there is one.
template <typename Write>
const char* WhyNotWritten(absl::Span<const Write> writes, std::size_t inputs,
                          absl::FunctionRef<const at::Tensor&(std::size_t)> tensor) {
  absl::InlinedVector<std::size_t, 8> written;
  for (const Write& w : writes) {
    if (w.followed && RefusesWrites(tensor(w.input))) return "a view is written whose writes autograd does not follow";
    written.push_back(w.input);
  }
  // Eager counts both up in the order of the program, which says whether what it has saved of the other is older.
  if (CountWithOtherMemory(written, inputs, tensor)) {
    return "a tensor is written that counts its versions together with one of other memory";
  }
  return nullptr;
}

bool Refuse(const char* why, TensorWork::Report* report) {
  report->before_writes = true;
  PyErr_SetString(PyExc_RuntimeError, why);
  return false;
}

const void* MemoryOf(const at::Tensor& t) { return t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(); }

// Version counters as eager would leave them: a plan writes an input once at its end, or past the counters.
class VersionKeeper {
 public:
  VersionKeeper(absl::Span<const WrittenInput> written, absl::Span<const at::Tensor> inputs) {
    for (const WrittenInput& w : written) {
      const at::Tensor& t = inputs[w.input];
      if (t.is_inference()) continue;
      const void* memory = MemoryOf(t);
      const auto same = std::find_if(targets_.begin(), targets_.end(), [&](const Target& target) {
        return target.memory == memory && ShareCounter(*target.tensor, t);
      });
      if (same != targets_.end()) {
        same->version += w.bumps;
        same->early += w.bumps - w.of_plan;
        same->counted_early = same->counted_early || w.counted_early;
      } else {
        const std::int64_t now = t._version();
        targets_.push_back({memory, &t, now, now + w.bumps - w.of_plan, now + w.bumps, w.counted_early});
      }
    }
  }
  void Apply(absl::Span<const at::Tensor> inputs, absl::Span<const at::Tensor> results) {
    if (targets_.empty()) return;
    // Eager renews the history of a view by a write that autograd follows, through the view itself.
    std::erase_if(views_, [](const InputView& v) { return v.meta->get_attr_version() != v.left; });
    Set(inputs, results, [](const Target& t) { return std::optional(t.version); });
    for (const InputView& v : views_) v.meta->set_attr_version(v.eagers);
  }
  // What the plan saves of an input has been counted up in eager: in the capture a backward pass ran, and found no
  // value older than its counter. Its own writes count, too.
  void ApplyBefore(absl::Span<const at::Tensor> inputs) {
    if (targets_.empty()) return;
    for (const at::Tensor& t : inputs) {
      auto* meta = ViewMetaOf(t);
      if (meta != nullptr) views_.push_back({meta, meta->get_attr_version()});
    }
    SetCounted(inputs, &Target::early);
    for (InputView& v : views_) v.left = v.meta->get_attr_version();
  }
  void Restore(absl::Span<const at::Tensor> inputs) const { SetCounted(inputs, &Target::before); }

 private:
  struct Target {
    const void* memory = nullptr;
    const at::Tensor* tensor = nullptr;
    std::int64_t before = 0;
    std::int64_t early = 0;
    std::int64_t version = 0;
    bool counted_early = false;
  };

  using ViewMeta = torch::autograd::DifferentiableViewMeta;
  // Of which version its history is.
  struct InputView {
    ViewMeta* meta = nullptr;
    std::uint32_t eagers = 0;
    std::uint32_t left = 0;  // until the plan runs
  };

  // Null: it is no view whose history may be older than its version.
  static ViewMeta* ViewMetaOf(const at::Tensor& t) {
    auto* view = t.defined() ? torch::autograd::impl::get_view_autograd_meta(t) : nullptr;
    return view != nullptr && view->has_bw_view() && !t.is_inference() ? view : nullptr;
  }

  void SetCounted(absl::Span<const at::Tensor> inputs, std::int64_t Target::*version) const {
    const auto counted = [](const Target& t) { return t.counted_early && t.early >= t.before; };
    if (std::none_of(targets_.begin(), targets_.end(), counted)) return;
    Set(inputs, {}, [&](const Target& t) { return counted(t) ? std::optional(t.*version) : std::nullopt; });
  }

  // A view whose history is up to date stays so: torch makes that of one older than the counter again, or refuses to.
  void Set(absl::Span<const at::Tensor> inputs, absl::Span<const at::Tensor> results,
           absl::FunctionRef<std::optional<std::int64_t>(const Target&)> version_of) const {
    absl::InlinedVector<std::pair<const at::Tensor*, ViewMeta*>, 4> views;
    for (const absl::Span<const at::Tensor> tensors : {inputs, results}) {
      for (const at::Tensor& t : tensors) {
        auto* view = ViewMetaOf(t);
        if (view == nullptr) continue;
        if (view->get_attr_version() == static_cast<std::uint32_t>(t._version())) views.emplace_back(&t, view);
      }
    }
    for (const Target& target : targets_) {
      const std::optional<std::int64_t> version = version_of(target);
      if (version.has_value()) CounterOf(*target.tensor).set_version(*version);
    }
    for (auto& [tensor, view] : views) view->set_attr_version(static_cast<std::uint32_t>(tensor->_version()));
  }

  absl::InlinedVector<Target, 2> targets_;
  std::vector<InputView> views_;
};

// Outputs on which the program called retain_grad().
std::vector<std::size_t> RetainedOutputs(const Closed& closed) {
  std::vector<std::size_t> retained;
  for (std::size_t i = 0; i < closed.fx_outputs.size(); ++i) {
    if (THPVariable_Unpack(closed.fx_outputs[i].get()).retains_grad()) retained.push_back(i);
  }
  return retained;
}

void RetainGradients(absl::Span<const std::size_t> retained, absl::Span<const Ref> outputs) {
  for (std::size_t i : retained) {
    if (i >= outputs.size() || !THPVariable_Check(outputs[i].get())) continue;
    const at::Tensor& t = THPVariable_Unpack(outputs[i].get());
    if (t.requires_grad()) t.retain_grad();
  }
}

const at::Tensor& TensorIn(const at::Tensor& result) { return result; }
const at::Tensor& TensorIn(const Ref& result) { return THPVariable_Unpack(result.get()); }

// Of what is expected of results; -1: all is so.
template <typename Results>
int FirstOtherwise(absl::Span<const ExpectedOutput> expected, const Results& results) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const at::Tensor& t = TensorIn(results[static_cast<std::size_t>(expected[i].output)]);
    if (t.is_nonzero() != expected[i].truth) return static_cast<int>(i);
  }
  return -1;
}

class PlanExecutable final : public TensorWork {
 public:
  PlanExecutable(std::shared_ptr<Plan> plan, std::vector<WrittenInput> written, DrawnFrom random, bool speaks,
                 const Closed& closed)
      : plan_(std::move(plan)),
        written_(std::move(written)),
        acts_(speaks || !written_.empty()),
        random_(std::move(random)),
        retained_(RetainedOutputs(closed)),
        expected_(closed.entry->expects.outputs) {
    for (std::size_t i = 0; i < closed.graph.inputs.size(); ++i) {
      if (closed.graph.inputs[i].asked_for_grad) asked_for_grad_.push_back(i);
    }
  }

  std::vector<PhaseTime> CompileTimes() const override { return plan_->Explain().phases; }

  bool Run(absl::Span<PyObject* const> inputs, absl::Span<std::int64_t> symbols, std::vector<Ref>* outputs,
           Report* report) const override {
    absl::InlinedVector<at::Tensor, 8> tensors;
    for (PyObject* o : inputs) tensors.push_back(THPVariable_Unpack(o));
    const auto tensor = [&](std::size_t i) -> const at::Tensor& { return tensors[i]; };
    const char* const why = WhyNotWritten<WrittenInput>(written_, tensors.size(), tensor);
    if (why != nullptr) return Refuse(why, report);
    VersionKeeper versions(written_, tensors);
    versions.ApplyBefore(tensors);
    RandomState random(random_);
    for (std::size_t i : asked_for_grad_) tensors[i].set_requires_grad(true);
    absl::StatusOr<std::vector<at::Tensor>> result = [&] {
      // What requires grad was decided in the capture, where the mode may have changed in between.
      const at::AutoGradMode grad_mode(true);
      PyThreadState* saved = PyEval_SaveThread();
      auto r = plan_->Run(tensors, symbols);
      PyEval_RestoreThread(saved);
      return r;
    }();
    const auto take_back = [&] {
      random.Restore();
      versions.Restore(tensors);
      for (std::size_t i : asked_for_grad_) tensors[i].set_requires_grad(false);
    };
    if (!result.ok() && IsRaisedByHook(result.status())) {
      versions.Apply(tensors, {});
      report->before_writes = false;  // it has run
      SetPythonError(result.status());
      return false;
    }
    if (!result.ok()) {
      report->before_writes = !acts_ || AreInputsUntouched(result.status());
      if (report->before_writes) take_back();
      const std::optional<std::size_t> deferred = DeferredFailureOf(result.status());
      report->deferred = deferred ? static_cast<int>(*deferred) : -1;
      if (!deferred) SetPythonError(result.status());
      return false;
    }
    report->otherwise = FirstOtherwise(expected_, *result);
    if (report->otherwise >= 0) {
      take_back();
      return false;
    }
    versions.Apply(tensors, *result);
    report->before_writes = !acts_;
    outputs->reserve(result->size());
    for (at::Tensor& t : *result) outputs->push_back(Ref::Steal(THPVariable_Wrap(std::move(t))));
    RetainGradients(retained_, *outputs);
    return true;
  }

 private:
  std::shared_ptr<Plan> plan_;
  std::vector<WrittenInput> written_;
  bool acts_;  // writes inputs, or speaks to other processes
  DrawnFrom random_;
  std::vector<std::size_t> retained_;
  std::vector<ExpectedOutput> expected_;
  std::vector<std::size_t> asked_for_grad_;  // inputs on which the program calls requires_grad_()
};

// Whether autograd follows the write of an input when the plan does it.
bool IsWriteFollowed(const ir::Graph& graph, std::size_t input) {
  const ir::Input& in = graph.inputs[input];
  if (!in.mutated || in.mutated_without_grad || in.mutated_uncounted) return false;
  return graph.value(in.value).requires_grad ||
         std::any_of(graph.outputs.begin(), graph.outputs.end(), [&](const ir::Output& o) {
           return o.role == ir::OutputRole::kMutatedInput && o.input == static_cast<int>(input) && o.requires_grad;
         });
}

class FxExecutable final : public TensorWork {
 public:
  FxExecutable(Ref callable, Ref fx_backend, FxFacts facts)
      : callable_(std::move(callable)), fx_backend_(std::move(fx_backend)), facts_(std::move(facts)) {}

  bool Run(absl::Span<PyObject* const> inputs, absl::Span<std::int64_t> symbols, std::vector<Ref>* outputs,
           Report* report) const override {
    if (const absl::Status status = facts_.sizes->Check(symbols); !status.ok()) {
      SetPythonError(status);
      return false;
    }
    report->before_writes = false;           // user code: never run twice, unless an operator of the program's failed
    const HookScope native(HookMode::kOff);  // the graph's own code is not captured in turn
    const auto tensor = [&](std::size_t i) -> const at::Tensor& { return THPVariable_Unpack(inputs[i]); };
    const char* const why = WhyNotWritten<FxWrite>(facts_.writes, inputs.size(), tensor);
    if (why != nullptr) return Refuse(why, report);
    const FxWrittenInputs written(facts_.writes, inputs);
    const TorchState state = TorchState::Current();
    RandomState random(facts_.random);
    const FxSizes::Arguments arguments(*facts_.sizes, symbols, inputs);
    Ref result = Call(arguments);
    if (!result) {
      state.Apply();  // the graph may have set it on the way
      const Ref error = frame_ops::FetchRaised(PyThreadState_Get());
      const Ref of_program = Ref::Steal(PyObject_CallMethod(fx_backend_, "judge", "O", error.get()));
      if (!of_program) return false;
      report->before_writes = of_program.get() == Py_True && written.TakeBack();
      if (report->before_writes) random.Restore();
      const bool stays = of_program.get() == Py_True && !report->before_writes;
      const Ref shown = stays ? Ref::Steal(PyObject_CallMethod(fx_backend_, "show", "O", error.get())) : Ref();
      if (stays && !shown) return false;
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error);
      return false;
    }
    if (const std::string why = Take(result, symbols, outputs); !why.empty()) {
      outputs->clear();
      state.Apply();
      const Ref none = Ref::Steal(PyObject_CallMethod(fx_backend_, "complain", "s", why.c_str()));
      return false;
    }
    report->otherwise = FirstOtherwise(facts_.expected, *outputs);
    if (report->otherwise >= 0) {
      (void)written.TakeBack();  // all of it was kept for that (FxFacts)
      outputs->clear();
      state.Apply();
      random.Restore();
      return false;
    }
    written.CountAsEager();
    TakeNumbers(symbols, outputs);
    MakeViewsAsEager(facts_, outputs);
    SetSpentHistories(facts_, inputs, outputs);
    return true;
  }

 private:
  // The tensors that hold them are no results of the program's.
  void TakeNumbers(absl::Span<std::int64_t> symbols, std::vector<Ref>* outputs) const {
    const at::NoGradGuard no_grad;
    for (const FxFacts::Number& n : facts_.numbers) {
      const at::Tensor& holder = THPVariable_Unpack((*outputs)[n.result].get());
      symbols[n.symbol] = std::bit_cast<std::int64_t>(holder.reshape({-1})[n.element].item().toDouble());
    }
    outputs->resize(facts_.user_results);
  }

  Ref Call(const FxSizes::Arguments& arguments) const {
    const at::AutoGradMode mode(at::GradMode::is_enabled() && !facts_.without_grad);
    std::optional<ir::WarningsOfSizesUnsaidInPython> unsaid;
    if (facts_.warns_of_sizes) unsaid.emplace();
    return Ref::Steal(PyObject_Vectorcall(callable_, arguments.all().data(), arguments.all().size(), nullptr));
  }

  // What is wrong with the result; empty: nothing.
  std::string Take(BorrowedRef result, absl::Span<const std::int64_t> symbols, std::vector<Ref>* outputs) const {
    if (!PyTuple_Check(result.get()) && !PyList_Check(result.get())) {
      return absl::StrCat("a ", Py_TYPE(result.get())->tp_name, ", not a tuple or list of ", facts_.results.size(),
                          " tensors");
    }
    const auto count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(result.get()));
    if (count != facts_.results.size()) {
      return absl::StrCat(count, " results; the graph has ", facts_.results.size());
    }
    for (std::size_t i = 0; i < count; ++i) {
      outputs->push_back(Ref::Create(PySequence_Fast_GET_ITEM(result.get(), static_cast<Py_ssize_t>(i))));
      const std::vector<std::int64_t> sizes = facts_.sizes->Of(facts_.results[i].sizes, symbols);
      if (const std::string why = WhyNot(outputs->back(), facts_.results[i], sizes); !why.empty()) {
        return absl::StrCat("results of which number ", i, " ", why);
      }
    }
    return {};
  }

  Ref callable_;
  Ref fx_backend_;
  FxFacts facts_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<TensorWork>> CompilePlan(Closed& closed, const std::string& backend,
                                                        const std::string& mode) {
  Backend* found = FindBackend(backend);
  if (found == nullptr) return absl::NotFoundError(absl::StrCat("there is no backend named ", backend));
  ir::Graph& graph = *closed.graph.graph;
  std::vector<WrittenInput> written;
  for (std::size_t i = 0; i < graph.inputs.size() && i < closed.graph.inputs.size(); ++i) {
    const int bumps = closed.graph.inputs[i].version_bumps;
    const bool mutated = graph.inputs[i].mutated;
    if (!mutated && bumps == 0) continue;
    const int of_plan = mutated && !graph.inputs[i].mutated_uncounted ? 1 : 0;
    const bool read = mutated && ir::BackwardReads(graph, graph.value(graph.inputs[i].value).storage);
    written.push_back({i, bumps, of_plan, !mutated || read, IsWriteFollowed(graph, i)});
  }
  DrawnFrom random = GeneratorsOf(graph);
  const bool speaks = std::any_of(graph.nodes.begin(), graph.nodes.end(), &ir::SpeaksToOthers);
  BackendOptions options;
  options.mode = mode;
  options.results_go_on = closed.entry != nullptr && closed.entry->resume.has_value();
  absl::StatusOr<std::shared_ptr<Plan>> plan = absl::UnknownError("not compiled");
  try {
    plan = SizedPlan::Compile(*found, std::move(graph), options);
  } catch (...) {  // torch's own code raises where a backend asks it for what there is not
    plan = TorchErrorStatus(std::current_exception(), "the backend");
  }
  if (!plan.ok()) return plan.status();
  return std::shared_ptr<TensorWork>(
      std::make_shared<PlanExecutable>(*std::move(plan), std::move(written), std::move(random), speaks, closed));
}

std::shared_ptr<TensorWork> CompileFx(const FxGraph& graph, FxFacts facts, BorrowedRef fx_backend) {
  // A compiled function that the backend calls runs as Python: it may be the one that is being compiled.
  const HookScope native(HookMode::kDisabled);
  const TorchState state = TorchState::Current();
  const at::AutoGradMode mode(state.grad_enabled && !facts.without_grad);
  Ref callable = Ref::Steal(PyObject_CallMethod(fx_backend, "compile", "OOO", graph.module.get(), graph.examples.get(),
                                                graph.sizes ? graph.sizes.get() : Py_None));
  state.Apply();  // a backend that runs the graph leaves the state that the graph sets
  if (!callable || callable.get() == Py_None) return nullptr;
  return std::make_shared<FxExecutable>(std::move(callable), Ref::Create(fx_backend), std::move(facts));
}

std::string GraphText(const tracing::TracedGraph& graph) {
  return graph.graph != nullptr ? ir::Print(*graph.graph) : "";
}
int NodeCountOf(const tracing::TracedGraph& graph) {
  return graph.graph != nullptr ? static_cast<int>(graph.graph->nodes.size()) : 0;
}
namespace {
// Or it raises, and then the graph has not run: what it has checked can be checked again.
bool OnlyChecks(const ir::Node& n) { return ir::Is(n.op, ir::OpName::k_LinalgCheckErrors); }
}  // namespace

bool MayDrawBefore(const tracing::TracedGraph& graph, std::size_t draws) {
  if (graph.graph == nullptr || graph.graph->nodes.size() <= draws) return false;
  return std::all_of(graph.graph->nodes.begin(), graph.graph->nodes.end(),
                     [](const ir::Node& n) { return ir::Has(n.op, ir::OpFact::kAten); });
}

bool ActsOutside(const tracing::TracedGraph& graph) { return WritesInputs(graph) || ActsBesidesWrites(graph); }
bool ActsBesidesWrites(const tracing::TracedGraph& graph) {
  // A kernel on a device that is given what the program has a check against (an index, a probability) ends the process.
  const auto is_on_device = [&](const ir::Node& n) {
    return std::any_of(n.outputs.begin(), n.outputs.end(),
                       [&](ir::ValueId v) { return v != ir::kNoValue && !graph.graph->value(v).device.is_cpu(); });
  };
  return graph.graph != nullptr &&
         std::any_of(graph.graph->nodes.begin(), graph.graph->nodes.end(),
                     [&](const ir::Node& n) { return (n.op->has_side_effect() && !OnlyChecks(n)) || is_on_device(n); });
}
bool HasSideEffects(const tracing::TracedGraph& graph) {
  return graph.graph != nullptr && std::any_of(graph.graph->nodes.begin(), graph.graph->nodes.end(),
                                               [](const auto& n) { return n.op->has_side_effect() && !OnlyChecks(n); });
}
bool WritesInputs(const tracing::TracedGraph& graph) {
  if (graph.graph == nullptr) return false;
  for (const ir::Input& input : graph.graph->inputs) {
    if (input.mutated) return true;
  }
  return false;
}

}  // namespace framefuse
