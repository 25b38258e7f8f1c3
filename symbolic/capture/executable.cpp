#include "symbolic/capture/executable.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "backends/graph/backend.h"
#include "backends/graph/graph.h"
#include "frame_eval/hook.h"
#include "symbolic/tracing/version_counter.h"

namespace framefuse {
namespace {

using tracing::CounterOf;
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

// A written input and how often eager's operators would have counted its version up.
struct WrittenInput {
  std::size_t index = 0;
  std::uint32_t bumps = 0;
};

const void* MemoryOf(const at::Tensor& t) { return t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(); }

// Version counters as eager would leave them: a plan writes an input once at its end, or past the counters.
class VersionKeeper {
 public:
  VersionKeeper(absl::Span<const WrittenInput> written, absl::Span<const at::Tensor> inputs) {
    for (const WrittenInput& w : written) {
      const at::Tensor& t = inputs[w.index];
      if (t.is_inference()) continue;
      const void* memory = MemoryOf(t);
      const auto same = std::find_if(targets_.begin(), targets_.end(), [&](const Target& target) {
        return target.memory == memory && ShareCounter(*target.tensor, t);
      });
      if (same != targets_.end()) {
        same->version += w.bumps;
      } else {
        targets_.push_back({memory, &t, t._version() + w.bumps});
      }
    }
  }
  // A view whose history is up to date stays so: torch makes that of one older than the counter again, or refuses to.
  void Apply(absl::Span<const at::Tensor> inputs, absl::Span<const at::Tensor> results) const {
    if (targets_.empty()) return;
    absl::InlinedVector<std::pair<const at::Tensor*, torch::autograd::DifferentiableViewMeta*>, 4> views;
    for (const absl::Span<const at::Tensor> tensors : {inputs, results}) {
      for (const at::Tensor& t : tensors) {
        auto* view = t.defined() ? torch::autograd::impl::get_view_autograd_meta(t) : nullptr;
        if (view == nullptr || !view->has_bw_view() || t.is_inference()) continue;
        if (view->get_attr_version() == static_cast<std::uint32_t>(t._version())) views.emplace_back(&t, view);
      }
    }
    for (const Target& target : targets_) CounterOf(*target.tensor).set_version(target.version);
    for (auto& [tensor, view] : views) view->set_attr_version(static_cast<std::uint32_t>(tensor->_version()));
  }

 private:
  struct Target {
    const void* memory = nullptr;
    const at::Tensor* tensor = nullptr;
    std::int64_t version = 0;
  };
  absl::InlinedVector<Target, 2> targets_;
};

// Version counters of what the graph made, as eager's in-place operators would leave them. Empty where something may be
// saved for a backward: a saved tensor's version is compared with the one it had when the plan returned.
std::vector<std::int64_t> OutputVersions(const Closed& closed) {
  std::vector<std::int64_t> versions;
  bool counted = false;
  for (const Ref& fake : closed.fx_outputs) {
    const at::Tensor& t = THPVariable_Unpack(fake.get());
    if (t.requires_grad() || t.is_inference()) return {};
    versions.push_back(t._version());
    counted = counted || versions.back() > 0;
  }
  return counted ? versions : std::vector<std::int64_t>();
}

void SetOutputVersions(absl::Span<const std::int64_t> versions, absl::Span<const at::Tensor> inputs,
                       absl::Span<const at::Tensor> outputs) {
  for (std::size_t i = 0; i < versions.size() && i < outputs.size(); ++i) {
    const at::Tensor& t = outputs[i];
    const auto shares = [&](const at::Tensor& input) { return input.storage().is_alias_of(t.storage()); };
    if (versions[i] <= t._version() || std::any_of(inputs.begin(), inputs.end(), shares)) continue;
    CounterOf(t).set_version(versions[i]);
  }
}

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

// Devices whose default generator the graph's forward draws from.
std::vector<c10::Device> DevicesOfRandomNodes(const ir::Graph& graph) {
  std::vector<c10::Device> devices;
  for (const ir::Node& n : graph.nodes) {
    if (!n.op->is_random() || n.phase == ir::Phase::kBackward) continue;
    for (ir::ValueId v : n.outputs) {
      if (v == ir::kNoValue) continue;
      const c10::Device device = graph.value(v).device;
      if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
    }
  }
  return devices;
}

// Generators as they are now: what fails before it has written anything runs again as Python, with the same numbers.
class RandomState {
 public:
  explicit RandomState(absl::Span<const c10::Device> devices) {
    for (c10::Device device : devices) {
      at::Generator generator = at::globalContext().defaultGenerator(device);
      try {
        std::lock_guard lock(generator.mutex());
        states_.emplace_back(generator, generator.get_state());
      } catch (const c10::Error&) {
        // A device's generator has no state to tell while the user records a graph; nothing runs twice then either.
      }
    }
  }
  void Restore() {
    for (auto& [generator, state] : states_) {
      std::lock_guard lock(generator.mutex());
      generator.set_state(state);
    }
  }

 private:
  absl::InlinedVector<std::pair<at::Generator, at::Tensor>, 1> states_;
};

class PlanExecutable final : public TensorWork {
 public:
  PlanExecutable(std::shared_ptr<Plan> plan, std::vector<WrittenInput> written, std::vector<c10::Device> random,
                 const Closed& closed)
      : plan_(std::move(plan)),
        written_(std::move(written)),
        random_(std::move(random)),
        output_versions_(OutputVersions(closed)),
        retained_(RetainedOutputs(closed)) {}

  std::vector<PhaseTime> CompileTimes() const override { return plan_->Explain().phases; }

  bool Run(absl::Span<PyObject* const> inputs, std::vector<Ref>* outputs, bool* before_writes) const override {
    absl::InlinedVector<at::Tensor, 8> tensors;
    for (PyObject* o : inputs) tensors.push_back(THPVariable_Unpack(o));
    const VersionKeeper versions(written_, tensors);
    RandomState random(random_);
    absl::StatusOr<std::vector<at::Tensor>> result = [&] {
      // What requires grad was decided in the capture, where the mode may have changed in between.
      const at::AutoGradMode grad_mode(true);
      PyThreadState* saved = PyEval_SaveThread();
      auto r = plan_->Run(tensors, {});
      PyEval_RestoreThread(saved);
      return r;
    }();
    if (!result.ok()) {
      *before_writes = written_.empty() || AreInputsUntouched(result.status());
      if (*before_writes) random.Restore();
      SetPythonError(result.status());
      return false;
    }
    versions.Apply(tensors, *result);
    SetOutputVersions(output_versions_, tensors, *result);
    *before_writes = written_.empty();
    outputs->reserve(result->size());
    for (at::Tensor& t : *result) outputs->push_back(Ref::Steal(THPVariable_Wrap(std::move(t))));
    RetainGradients(retained_, *outputs);
    return true;
  }

 private:
  std::shared_ptr<Plan> plan_;
  std::vector<WrittenInput> written_;
  std::vector<c10::Device> random_;
  std::vector<std::int64_t> output_versions_;
  std::vector<std::size_t> retained_;
};

class FxExecutable final : public TensorWork {
 public:
  FxExecutable(Ref callable, const Closed& closed)
      : callable_(std::move(callable)), retained_(RetainedOutputs(closed)) {}

  bool Run(absl::Span<PyObject* const> inputs, std::vector<Ref>* outputs, bool* before_writes) const override {
    *before_writes = false;                  // user code: never run twice
    const HookScope native(HookMode::kOff);  // the graph's own code is not captured in turn
    Ref result = Ref::Steal(PyObject_Vectorcall(callable_, inputs.data(), inputs.size(), nullptr));
    Ref items = result ? Ref::Steal(PySequence_Tuple(result)) : Ref();
    for (Py_ssize_t i = 0; items && i < PyTuple_GET_SIZE(items.get()); ++i) {
      outputs->push_back(Ref::Create(PyTuple_GET_ITEM(items.get(), i)));
    }
    RetainGradients(retained_, *outputs);
    return static_cast<bool>(items);
  }

 private:
  Ref callable_;
  std::vector<std::size_t> retained_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<TensorWork>> CompilePlan(Closed& closed, const std::string& backend,
                                                        const std::string& mode) {
  Backend* found = FindBackend(backend);
  if (found == nullptr) return absl::NotFoundError(absl::StrCat("there is no backend named ", backend));
  ir::Graph& graph = *closed.graph.graph;
  std::vector<WrittenInput> written;
  for (std::size_t i = 0; i < graph.inputs.size() && i < closed.graph.inputs.size(); ++i) {
    if (!graph.inputs[i].mutated) continue;
    written.push_back({i, static_cast<std::uint32_t>(closed.graph.inputs[i].version_bumps)});
  }
  std::vector<c10::Device> random = DevicesOfRandomNodes(graph);
  BackendOptions options;
  options.mode = mode;
  absl::StatusOr<std::shared_ptr<Plan>> plan = found->Compile(std::move(graph), options);
  if (!plan.ok()) return plan.status();
  return std::shared_ptr<TensorWork>(
      std::make_shared<PlanExecutable>(*std::move(plan), std::move(written), std::move(random), closed));
}

absl::StatusOr<std::shared_ptr<TensorWork>> CompileFx(Capture& capture, const Closed& closed, BorrowedRef fx_backend) {
  Ref inputs = Ref::Steal(PyList_New(0));
  const std::vector<std::string> names = capture.SlotNames();
  for (const Capture::TensorInput& input : capture.tensor_inputs()) {
    Ref name = Ref::Steal(PyUnicode_FromString(capture.sources().Print(input.source, names).c_str()));
    Ref row = Ref::Steal(PyTuple_Pack(3, name.get(), input.fake.get(), input.real.get()));
    PyList_Append(inputs, row);
  }
  Ref nodes = Ref::Steal(PyList_New(0));
  static const char* const kOps[] = {"call_function", "call_method", "get_attr"};
  for (const FxNode& n : capture.fx().nodes()) {
    Ref op = Ref::Steal(PyUnicode_FromString(kOps[static_cast<int>(n.op)]));
    Ref args = n.args ? n.args : Ref::Steal(PyTuple_New(0));
    Ref kwargs = n.kwargs ? n.kwargs : Ref::Steal(PyDict_New());
    Ref row = Ref::Steal(PyTuple_Pack(5, op.get(), n.target.get(), args.get(), kwargs.get(), n.result.get()));
    PyList_Append(nodes, row);
  }
  Ref outputs = Ref::Steal(PyList_New(0));
  for (const Ref& fake : closed.fx_outputs) PyList_Append(outputs, fake);
  const HookScope native(HookMode::kOff);
  Ref callable =
      Ref::Steal(PyObject_CallFunctionObjArgs(fx_backend, inputs.get(), nodes.get(), outputs.get(), nullptr));
  if (!callable) return absl::AbortedError("the FX backend raised");
  return std::shared_ptr<TensorWork>(std::make_shared<FxExecutable>(std::move(callable), closed));
}

std::string GraphText(const tracing::TracedGraph& graph) {
  return graph.graph != nullptr ? ir::Print(*graph.graph) : "";
}
int NodeCountOf(const tracing::TracedGraph& graph) {
  return graph.graph != nullptr ? static_cast<int>(graph.graph->nodes.size()) : 0;
}
bool WritesInputs(const tracing::TracedGraph& graph) {
  if (graph.graph == nullptr) return false;
  for (const ir::Input& input : graph.graph->inputs) {
    if (input.mutated) return true;
  }
  return false;
}

}  // namespace framefuse
