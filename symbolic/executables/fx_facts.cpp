#include "symbolic/executables/fx_facts.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/graph/input_writes.h"
#include "backends/graph/subgraph.h"
#include "backends/graph/unsaid_warnings.h"
#include "symbolic/executables/fx_unbacked.h"
#include "symbolic/executables/random_state.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;

// How many nodes of a recorded graph write a storage.
int WritesTo(const ir::Graph& graph, ir::StorageId storage) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [&](const ir::Node& n) { return ir::Writes(graph, n, storage); }));
}

bool BecomesAnother(const FxJournal& journal, const at::Tensor* fake) {
  for (const FxNode& n : journal.nodes()) {
    if (n.op != FxNode::Op::kBecomes) continue;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(n.args.get()); ++i) {
      if (THPVariable_Unpack(PyList_GET_ITEM(n.args.get(), i)).is_same(*fake)) return true;
    }
  }
  return false;
}

// Nothing: the callable does without.
std::optional<std::size_t> InputOfCallable(const FxGraph& graph, const tracing::TracedInput& in, Capture& capture) {
  const int index = in.input_index >= 0 ? in.input_index : in.gradient_of;
  SourceId source = capture.objects().tensor_inputs()[static_cast<std::size_t>(index)].source;
  if (in.input_index < 0) source = capture.reads().sources().Intern(SourceKind::kTensorGrad, source, 0, nullptr);
  const auto found = std::find(graph.inputs.begin(), graph.inputs.end(), source);
  if (found == graph.inputs.end()) return std::nullopt;
  return static_cast<std::size_t>(found - graph.inputs.begin());
}

void AddSpent(const FxGraph& graph, const Closed& closed, Capture& capture, FxFacts* facts) {
  const ir::Graph& recorded = *closed.graph.graph;
  for (std::size_t i = 0; i < closed.fx_outputs.size(); ++i) {
    const ir::Output& o = recorded.outputs[i];
    const ir::Output& of = ir::WithHistory(recorded, o);
    if (!o.requires_grad || !of.spent) continue;
    FxFacts::Spent spent{i, {}, {o.grad_fn, of.underivable}, &of != &o};
    for (const std::int32_t behind : ir::InputsNeededFor(recorded, of.value)) {
      const tracing::TracedInput& in = closed.graph.inputs[static_cast<std::size_t>(behind)];
      if (const std::optional<std::size_t> input = InputOfCallable(graph, in, capture)) spent.behind.push_back(*input);
    }
    facts->spent.push_back(std::move(spent));
  }
}

bool SaysWarningOfSizes(const CompiledEntry& entry) {
  return std::any_of(entry.expects.warnings.begin(), entry.expects.warnings.end(), [](const DeferredWarning& w) {
    const char* words = PyUnicode_AsUTF8(w.text.get());
    if (words == nullptr) PyErr_Clear();
    return words != nullptr && ir::IsWarningOfSizes(words);
  });
}

void AddNumbers(const ir::Graph& recorded, FxFacts* facts) {
  const std::vector<ir::ValueId> values = UnbackedValues(recorded);
  const std::size_t first = facts->user_results = facts->results.size();
  for (const ir::ValueId v : values) {
    const ir::Value& value = recorded.value(v);
    facts->results.push_back({value.dtype, value.device, value.sizes});
  }
  for (const ir::Output& o : recorded.outputs) {
    if (o.role != ir::OutputRole::kUnbacked) continue;
    const auto at = static_cast<std::size_t>(std::find(values.begin(), values.end(), o.value) - values.begin());
    facts->numbers.push_back({first + at, ~o.dim, static_cast<std::size_t>(o.symbol)});
  }
}

}  // namespace

FxFacts FactsOf(const FxGraph& graph, const Closed& closed, Capture& capture) {
  FxFacts facts;
  const ir::Graph& recorded = *closed.graph.graph;
  for (std::size_t i = 0; i < closed.fx_outputs.size(); ++i) {
    const at::Tensor& t = THPVariable_Unpack(closed.fx_outputs[i].get());
    const ir::Output& o = recorded.outputs[i];
    const bool may_be_view = o.alias != ir::OutputAlias::kFresh || t.is_view();
    facts.results.push_back({t.scalar_type(), t.device(), recorded.value(o.value).sizes, may_be_view, o.without_grad});
  }
  AddNumbers(recorded, &facts);
  facts.sizes = std::make_shared<FxSizes>(graph.symbols, closed.graph.graph);
  facts.random = GeneratorsOf(recorded);
  facts.expected = closed.entry->expects.outputs;
  for (std::size_t i = 0; i < closed.graph.inputs.size(); ++i) {
    const tracing::TracedInput& in = closed.graph.inputs[i];
    if (!recorded.inputs[i].mutated) continue;
    const ir::ValueId value = recorded.inputs[i].value;
    const ir::StorageId storage = recorded.value(value).storage;
    FxWrite write;
    write.in_graph = ir::WriteOf(recorded, storage);
    write.in_graph.kept = write.in_graph.kept || !facts.expected.empty();
    write.counted = in.version_bumps >= WritesTo(recorded, storage);
    const at::Tensor& fake = THPVariable_Unpack(capture.tracer().FakeOfInputValue(value).get());
    write.followed = fake.requires_grad() && !fake.is_leaf();
    // Sizes that it had for a while count in eager; the graph has operators that make views instead.
    if (BecomesAnother(capture.fx(), &fake)) write.bumps = in.version_bumps;
    const std::optional<std::size_t> input = InputOfCallable(graph, in, capture);
    if (!input) continue;
    write.input = *input;
    facts.writes.push_back(write);
  }
  facts.warns_of_sizes = SaysWarningOfSizes(*closed.entry);
  facts.without_grad = capture.fx().backward_pass() >= 0;
  if (facts.without_grad) AddSpent(graph, closed, capture, &facts);
  return facts;
}

std::string WhyNot(BorrowedRef made, const FxFacts::Result& wanted, absl::Span<const std::int64_t> sizes) {
  if (!THPVariable_Check(made.get())) return absl::StrCat("is of type ", Py_TYPE(made.get())->tp_name);
  const at::Tensor& t = THPVariable_Unpack(made.get());
  if (t.unsafeGetTensorImpl()->is_python_dispatch()) return absl::StrCat("is a ", Py_TYPE(made.get())->tp_name);
  if (t.scalar_type() != wanted.dtype) {
    return absl::StrCat("is of ", c10::toString(t.scalar_type()), ", not of ", c10::toString(wanted.dtype));
  }
  if (t.device() != wanted.device) return absl::StrCat("is on ", t.device().str(), ", not on ", wanted.device.str());
  if (absl::MakeConstSpan(t.sizes().data(), t.sizes().size()) != sizes) {
    return absl::StrCat("has the sizes [", absl::StrJoin(t.sizes(), ", "), "], not [", absl::StrJoin(sizes, ", "), "]");
  }
  return {};
}

void SetSpentHistories(const FxFacts& facts, absl::Span<PyObject* const> inputs, std::vector<Ref>* outputs) {
  const at::AutoGradMode mode(true);
  for (const FxFacts::Spent& spent : facts.spent) {
    Ref& output = (*outputs)[spent.result];
    std::vector<at::Tensor> behind;
    for (const std::size_t input : spent.behind) behind.push_back(THPVariable_Unpack(inputs[input]));
    at::Tensor tensor = THPVariable_Unpack(output.get());
    if (spent.is_view && tensor.is_view()) {
      SetSpentHistoryOfView(tensor, behind, spent.function);
      continue;
    }
    const auto is_same = [&](const Ref& other) { return &other != &output && other.get() == output.get(); };
    // Another result of the same tensor has no history, and a view has that of its base.
    if (tensor.is_view() || std::any_of(outputs->begin(), outputs->end(), is_same)) {
      tensor = tensor.tensor_data();
      output = Ref::Steal(THPVariable_Wrap(tensor));
    }
    SetSpentHistory(tensor, behind, spent.function);
  }
}

void MakeViewsAsEager(const FxFacts& facts, std::vector<Ref>* outputs) {
  absl::flat_hash_map<PyObject*, Ref> made;  // a tensor may be several results
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    const at::Tensor& given = THPVariable_Unpack((*outputs)[i].get());
    if (!given.is_view() || given.is_inference()) continue;
    if (facts.results[i].may_be_view) {
      auto* meta = autograd::impl::get_view_autograd_meta(given);
      const bool by_module = facts.without_grad && !facts.results[i].of_no_grad;
      if (by_module && meta->get_creation_meta() == autograd::CreationMeta::NO_GRAD_MODE) {
        meta->set_creation_meta(autograd::CreationMeta::DEFAULT);
      }
      continue;
    }
    Ref& plain = made[(*outputs)[i].get()];
    if (!plain) {
      at::Tensor t = given.variable_data();
      autograd::impl::set_version_counter(t, autograd::impl::version_counter(given));
      if (given.grad_fn()) autograd::impl::set_gradient_edge(t, autograd::impl::gradient_edge(given));
      plain = Ref::Steal(THPVariable_Wrap(std::move(t)));
    }
    (*outputs)[i] = plain;
  }
}

}  // namespace framefuse
