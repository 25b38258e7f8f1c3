#include "symbolic/executables/fx_facts.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/graph/input_writes.h"
#include "backends/graph/subgraph.h"
#include "backends/graph/unsaid_warnings.h"
#include "symbolic/executables/fx_unbacked.h"
#include "symbolic/executables/random_state.h"

namespace framefuse {
namespace {

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
    if (!o.spent) continue;
    FxFacts::Spent spent{i, {}, {o.grad_fn, o.underivable}};
    for (const std::int32_t behind : ir::InputsNeededFor(recorded, o.value)) {
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
    facts.results.push_back({t.scalar_type(), t.device(), recorded.value(recorded.outputs[i].value).sizes});
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

}  // namespace framefuse
