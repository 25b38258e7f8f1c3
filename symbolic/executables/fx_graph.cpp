#include "symbolic/executables/fx_graph.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "backends/graph/graph.h"
#include "backends/graph/subgraph.h"
#include "common/config.h"
#include "common/logging.h"
#include "common/status.h"
#include "frame_eval/hook.h"
#include "symbolic/executables/fx_difference.h"
#include "symbolic/executables/fx_numbers.h"
#include "symbolic/executables/fx_unbacked.h"
#include "symbolic/executables/fx_values.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/tracing/value_reads.h"

namespace framefuse {
namespace {

// Torch's state as it is when the module begins to run.
class StartState {
 public:
  explicit StartState(const Capture& capture) { capture.start_state().Apply(); }
  ~StartState() { end_.Apply(); }
  StartState(const StartState&) = delete;
  StartState& operator=(const StartState&) = delete;

 private:
  TorchState end_ = TorchState::Current();
};

// An input that the module may have a placeholder for.
struct Candidate {
  SourceId source = kNoSource;
  Ref fake;
  Ref real;
  ir::ValueId value = ir::kNoValue;  // as it came in; none: the graph does without
};

std::vector<Candidate> CandidatesOf(Capture& capture, const Closed& closed) {
  std::vector<Candidate> candidates;
  const std::vector<TensorInput>& tensors = capture.objects().tensor_inputs();
  for (const TensorInput& t : tensors) candidates.push_back({t.source, t.fake, t.real});
  for (std::size_t i = 0; i < closed.graph.inputs.size(); ++i) {
    const tracing::TracedInput& in = closed.graph.inputs[i];
    const ir::ValueId value = closed.graph.graph->inputs[i].value;
    if (in.input_index >= 0) {
      candidates[static_cast<std::size_t>(in.input_index)].value = value;
      continue;
    }
    Candidate c;
    c.value = value;
    const SourceId of = tensors[static_cast<std::size_t>(in.gradient_of)].source;
    c.source = capture.reads().sources().Intern(SourceKind::kTensorGrad, of, 0, nullptr);
    c.fake = capture.tracer().FakeOfInputValue(value);
    c.real = capture.tracer().RealOf(c.fake);
    candidates.push_back(std::move(c));
  }
  return candidates;
}

// ---------------------------------------------------------------- what Python asks of the recording

struct Recording {
  tracing::Tracer& tracer;
  const ir::Graph& graph;
  const OriginTable& origins;
  const std::vector<std::int32_t>& places;
};

template <typename T>
T& Of(PyObject* capsule) {
  return *static_cast<T*>(PyCapsule_GetPointer(capsule, nullptr));
}

// value_of(fake) → the number of its value, -1: none of this recording.
PyObject* ValueOf(PyObject* self, PyObject* fake) {
  return PyLong_FromLong(Of<const Recording>(self).tracer.ValueOf(fake));
}

// number(object) → TreeOf the symbolic number that it stands for, or None.
PyObject* NumberOf(PyObject* self, PyObject* object) {
  Ref tree = TreeOfNumber(Of<const Recording>(self).tracer, object);
  return tree ? tree.release() : PyErr_Occurred() != nullptr ? nullptr : Py_NewRef(Py_None);
}

// node(index) → PythonFormOf, or None.
PyObject* NodeAt(PyObject* self, PyObject* index) {
  const ir::Graph& graph = Of<const Recording>(self).graph;
  const Py_ssize_t i = PyLong_AsSsize_t(index);
  if (i < 0 || i >= static_cast<Py_ssize_t>(graph.nodes.size())) Py_RETURN_NONE;
  Ref row = PythonFormOf(graph, graph.nodes[static_cast<std::size_t>(i)]);
  return row ? row.release() : Py_NewRef(Py_None);
}

// constant(value) → (tensor, whether it is a number of the program's), or None.
PyObject* ConstantAt(PyObject* self, PyObject* value) {
  const ir::Graph& graph = Of<const Recording>(self).graph;
  const long v = PyLong_AsLong(value);
  for (const ir::ConstantTensor& c : graph.constants) {
    if (c.value != v) continue;
    Ref tensor = Ref::Steal(THPVariable_Wrap(c.tensor));
    return Py_BuildValue("(OO)", tensor.get(), graph.value(c.value).wrapped_number ? Py_True : Py_False);
  }
  Py_RETURN_NONE;
}

// (file, line, function, text of the line)
Ref RowOf(const ir::Origin& o) {
  return Ref::Steal(Py_BuildValue("(siss)", o.file.c_str(), o.line, o.function.c_str(), o.source.c_str()));
}

// origin(index) → rows of the program's frames in which a node was recorded, outermost first.
PyObject* OriginAt(PyObject* self, PyObject* index) {
  const auto& recording = Of<const Recording>(self);
  const Py_ssize_t i = PyLong_AsSsize_t(index);
  Ref rows = Ref::Steal(PyList_New(0));
  if (!rows || i < 0 || i >= static_cast<Py_ssize_t>(recording.places.size())) return rows.release();
  for (const ir::Origin& o : recording.origins.StackOf(recording.places[static_cast<std::size_t>(i)])) {
    PyList_Append(rows, RowOf(o).get());
  }
  return rows.release();
}

PyMethodDef kValueOf = {"value_of", &ValueOf, METH_O, nullptr};
PyMethodDef kNumberOf = {"number", &NumberOf, METH_O, nullptr};
PyMethodDef kNodeAt = {"node", &NodeAt, METH_O, nullptr};
PyMethodDef kOriginAt = {"origin", &OriginAt, METH_O, nullptr};
PyMethodDef kConstantAt = {"constant", &ConstantAt, METH_O, nullptr};

// A function of C++'s for as long as `context` lives.
template <typename T>
Ref FunctionOf(PyMethodDef* method, T& context) {
  Ref capsule = Ref::Steal(PyCapsule_New(const_cast<std::remove_const_t<T>*>(&context), nullptr, nullptr));
  return Ref::Steal(PyCFunction_New(method, capsule));
}

int ForwardNodes(const ir::Graph& graph) {
  const auto first = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [](const ir::Node& n) { return n.phase == ir::Phase::kBackward; });
  return static_cast<int>(first - graph.nodes.begin());
}

// An output that requires grad and has no history: autograd gives what a function of its own returns one. -1: none.
int NodeOfDetachedView(const Closed& closed) {
  const ir::Graph& graph = *closed.graph.graph;
  for (std::size_t i = 0; i < closed.fx_outputs.size(); ++i) {
    const ir::Output& o = graph.outputs[i];  // the user's come first
    if (!o.without_grad || !THPVariable_Unpack(closed.fx_outputs[i].get()).requires_grad()) continue;
    return graph.Definitions()[static_cast<std::size_t>(o.value)];
  }
  return -1;
}

FxGraph RefusedBefore(int node, const char* why) {
  FxGraph refused;
  refused.refused_node = node;
  refused.why_refused = refused.told = why;
  return refused;
}

// The operators that give an input other sizes, where the entry may not do that when the graph has run: a result has
// saved it, or it is written and shares its version counter. -1: none.
int NodeOfUntimelySizes(Capture& capture, const Closed& closed) {
  const ir::Graph& graph = *closed.graph.graph;
  const bool has_history =
      std::any_of(graph.outputs.begin(), graph.outputs.end(), [](const ir::Output& o) { return o.requires_grad; });
  const auto is_untimely = [&](BorrowedRef fake) {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
      const Ref input = capture.tracer().FakeOfInputValue(graph.inputs[i].value);
      if (input.get() == fake.get())
        return has_history || (graph.inputs[i].mutated && graph.inputs[i].overlap_class != 0);
    }
    return false;
  };
  for (const FxNode& n : capture.fx().nodes()) {
    if (n.op != FxNode::Op::kBecomes) continue;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(n.args.get()); ++i) {
      if (is_untimely(PyList_GET_ITEM(n.args.get(), i))) return n.begin;
    }
  }
  return -1;
}

// A graph with a backward pass runs without histories. Null: nobody sees the difference.
const char* WhyHistoryIsNeeded(const ir::Graph& graph) {
  for (const ir::Output& o : graph.outputs) {
    if (o.role == ir::OutputRole::kMutatedInput) return "a backward pass, and an input gets a history";
    const bool has_one = o.requires_grad && !ir::WithHistory(graph, o).spent && o.alias != ir::OutputAlias::kInput;
    if (has_one) return "a backward pass that leaves a result with a history, in a graph for an FX backend";
  }
  return nullptr;
}

// ---------------------------------------------------------------- the check

struct FakeRun {
  tracing::Tracer& tracer;
};

// Values that the capture relied on are the same here, and guarded there.
class SameValues final : public tracing::ValueReader {
 public:
  bool MayRelyOn(std::uint64_t) override { return true; }
  void Relied(std::shared_ptr<const tracing::ValueRead>) override {}
};

// host_tensor(function, args, kwargs) → a fake of what the function makes of numbers, as the capture made it.
PyObject* HostTensor(PyObject* self, PyObject* arguments) {
  PyObject *function, *args, *kwargs;
  if (PyArg_ParseTuple(arguments, "OOO", &function, &args, &kwargs) == 0) return nullptr;
  Ref real;
  {
    const tracing::Tracer::Suspended off;
    real = Ref::Steal(PyObject_Call(function, args, kwargs));
  }
  if (!real) return nullptr;
  absl::StatusOr<Ref> fake = Of<FakeRun>(self).tracer.RegisterConstant(real, /*copy=*/true);
  if (fake.ok()) return PyObject_CallMethod(*fake, "clone", nullptr);
  PyErr_SetString(PyExc_RuntimeError, std::string(fake.status().message()).c_str());
  return nullptr;
}

// call(callable, args, kwargs) → CallWithNumbers.
PyObject* Call(PyObject* self, PyObject* arguments) {
  PyObject *callable, *args, *kwargs;
  if (PyArg_ParseTuple(arguments, "OOO", &callable, &args, &kwargs) == 0) return nullptr;
  return CallWithNumbers(Of<FakeRun>(self).tracer, callable, args, kwargs).release();
}

// number(tree) → NumberOfTree.
PyObject* NumberFor(PyObject* self, PyObject* tree) { return NumberOfTree(Of<FakeRun>(self).tracer, tree).release(); }

// constant(tensor) → its fake.
PyObject* ConstantFake(PyObject* self, PyObject* real) {
  absl::StatusOr<Ref> fake = Of<FakeRun>(self).tracer.RegisterConstant(real, /*copy=*/false);
  if (fake.ok()) return fake->release();
  PyErr_SetString(PyExc_RuntimeError, std::string(fake.status().message()).c_str());
  return nullptr;
}

PyMethodDef kHostTensor = {"host_tensor", &HostTensor, METH_VARARGS, nullptr};
PyMethodDef kCall = {"call", &Call, METH_VARARGS, nullptr};
PyMethodDef kNumberFor = {"number", &NumberFor, METH_O, nullptr};
PyMethodDef kConstantFake = {"constant", &ConstantFake, METH_O, nullptr};

// The program has come near the end of the stack, where there is no room for our own Python code.
bool IsOutOfRoom() { return PyErr_ExceptionMatches(PyExc_RecursionError) || PyErr_ExceptionMatches(PyExc_MemoryError); }

FxGraph NoRoom() {
  PyErr_Clear();
  FxGraph none;
  none.refused_node = 0;
  none.why_refused = "no room to build it";
  return none;
}

std::string TakeErrorText() {
  const Ref error = frame_ops::FetchRaised(PyThreadState_Get());
  const Ref text = error ? Ref::Steal(PyObject_Str(error)) : Ref();
  PyErr_Clear();
  return error ? absl::StrCat(Py_TYPE(error.get())->tp_name, ": ", text ? Utf8(text) : "") : "an error";
}

// Fakes of the inputs in use, and symbols as the capture made them, in its order.
absl::StatusOr<Ref> InputsAgain(const tracing::Tracer& original, const std::vector<Candidate>& candidates,
                                const std::vector<std::size_t>& used, tracing::Tracer& tracer) {
  const std::vector<tracing::SizeSymbol>& symbols = original.sizes().symbols();
  std::size_t next = 0;
  const auto make_numbers = [&] {
    for (; next < symbols.size() && symbols[next].input_index == tracing::kIsNumberSymbol; ++next) {
      const std::int64_t hint = original.sizes().expressions().symbols()[next].hint;
      (void)tracer.sizes().MakeNumber(Ref::Steal(PyLong_FromLongLong(hint)));
    }
  };
  std::vector<Ref> made(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    make_numbers();
    tracing::SymbolicDims dims;
    for (; next < symbols.size() && symbols[next].input_index == static_cast<int>(i); ++next) {
      (symbols[next].of_stride ? dims.strides : dims.sizes) |= std::uint32_t{1} << symbols[next].dim;
    }
    if (!dims.any() && !absl::c_linear_search(used, i)) continue;
    FF_ASSIGN_OR_RETURN(made[i], tracer.MakeInput(candidates[i].real, tracing::InputRole::kBuffer, static_cast<int>(i),
                                                  absl::StrCat(i), dims));
  }
  make_numbers();
  AssumeFacts(original, tracer);
  Ref fakes = Ref::Steal(PyList_New(0));
  for (const std::size_t i : used) PyList_Append(fakes, made[i]);
  return fakes;
}

// Runs the module on fakes of the same tensors under a tracer of its own.
std::optional<Difference> Check(Capture& capture, const Closed& closed, BorrowedRef fx_backend, BorrowedRef built,
                                const std::vector<Candidate>& candidates, const std::vector<std::size_t>& used) {
  SameValues values;
  tracing::Tracer tracer;
  tracer.around().heard_warnings = tracing::HeardWarnings::kDueOfRepeated;  // the capture broke on others
  tracer.SetValueReader(&values);
  const absl::StatusOr<Ref> fakes = InputsAgain(capture.tracer(), candidates, used, tracer);
  if (!fakes.ok()) return Difference{0, false, std::string(fakes.status().message())};
  FakeRun run{tracer};
  Ref outputs;
  {
    const tracing::Tracer::Scope tracing(tracer);
    const Ref host = FunctionOf(&kHostTensor, run);
    const Ref constant = FunctionOf(&kConstantFake, run);
    const Ref call = FunctionOf(&kCall, run);
    const Ref number = FunctionOf(&kNumberFor, run);
    outputs = Ref::Steal(PyObject_CallMethod(fx_backend, "run_on_fakes", "OOOOOO", built.get(), fakes->get(),
                                             host.get(), constant.get(), call.get(), number.get()));
  }
  capture.start_state().Apply();  // the module may end in another
  if (!outputs) {
    const bool no_room = IsOutOfRoom();
    return Difference{tracer.NodeCount(), no_room, TakeErrorText()};
  }
  std::vector<BorrowedRef> tensors;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(outputs.get()); ++i) {
    tensors.emplace_back(PyList_GET_ITEM(outputs.get(), i));
  }
  const int nodes = tracer.NodeCount();
  absl::StatusOr<tracing::TracedGraph> graph = tracer.Close(tensors, /*for_backward=*/false);
  if (!graph.ok()) return Difference{nodes, false, std::string(graph.status().message())};
  if (!graph->geometry_effects.empty()) return Difference{0, false, "it gives an input other sizes"};
  if (HasOtherFacts(capture.tracer(), tracer)) return Difference{0, false, "it relies on other sizes"};
  return Compare(*closed.graph.graph, *graph->graph, capture.fx().backward_pass() >= 0);
}

Ref Rows(Capture& capture, const std::vector<Candidate>& candidates) {
  Ref rows = Ref::Steal(PyList_New(0));
  const std::vector<std::string> names = capture.frames().SlotNames();
  for (const Candidate& c : candidates) {
    const std::string name = capture.reads().sources().Print(c.source, names);
    PyList_Append(rows, Ref::Steal(Py_BuildValue("(sOi)", name.c_str(), c.fake.get(), c.value)).get());
  }
  return rows;
}

// (name, the candidate whose size it is, or -1)
Ref SymbolRows(const tracing::Tracer& tracer) {
  Ref rows = Ref::Steal(PyList_New(0));
  const std::vector<ir::Symbol>& symbols = tracer.sizes().expressions().symbols();
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const int input = tracer.sizes().symbols()[i].input_index;
    PyList_Append(rows, Ref::Steal(Py_BuildValue("(si)", symbols[i].name.c_str(), input)).get());
  }
  return rows;
}

Ref Rows(const FxJournal& journal) {
  static constexpr const char* kOps[] = {"call_function", "call_method", "get_attr", "host_tensor", "becomes"};
  Ref rows = Ref::Steal(PyList_New(0));
  if (journal.backward_pass() >= 0) return rows;  // its operators are all there is
  for (const FxNode& n : journal.nodes()) {
    PyList_Append(rows, Ref::Steal(Py_BuildValue("(sOOOOii)", kOps[static_cast<int>(n.op)], n.target.get(),
                                                 n.args.get(), n.kwargs.get(), n.result.get(), n.begin, n.end))
                            .get());
  }
  return rows;
}

}  // namespace

namespace {

// The tuple that FxBackend.build returns; null: an error is set.
Ref BuildModule(Capture& capture, const Closed& closed, BorrowedRef fx_backend,
                const std::vector<Candidate>& candidates) {
  const ir::Graph& graph = *closed.graph.graph;
  const Recording recording{capture.tracer(), graph, capture.frames().origins(), closed.graph.places};
  const Ref asked = Ref::Steal(
      Py_BuildValue("(NNNNNi)", FunctionOf(&kValueOf, recording).release(), FunctionOf(&kNodeAt, recording).release(),
                    FunctionOf(&kConstantAt, recording).release(), FunctionOf(&kOriginAt, recording).release(),
                    FunctionOf(&kNumberOf, recording).release(), ForwardNodes(graph)));
  Ref outputs = Ref::Steal(PyList_New(0));
  for (const Ref& fake : closed.fx_outputs) PyList_Append(outputs, fake);
  Ref values = Ref::Steal(PyList_New(0));
  for (const ir::ValueId v : UnbackedValues(graph)) PyList_Append(values, Ref::Steal(PyLong_FromLong(v)).get());
  return Ref::Steal(PyObject_CallMethod(fx_backend, "build", "OOOOOO", Rows(capture, candidates).get(),
                                        SymbolRows(capture.tracer()).get(), Rows(capture.fx()).get(), outputs.get(),
                                        values.get(), asked.get()));
}

// (number, whether it is a size, the number at hand) of each symbol in use, then (sizes, strides) of each input in use.
Ref SizesOf(Capture& capture, const Closed& closed, const std::vector<int>& symbols,
            const std::vector<std::size_t>& used) {
  Ref sizes = Ref::Steal(PyList_New(0));
  for (const int s : symbols) {
    const auto index = static_cast<std::size_t>(s);
    const bool is_size = capture.tracer().sizes().symbols()[index].input_index >= 0;
    const auto hint = static_cast<long long>(capture.tracer().sizes().expressions().symbols()[index].hint);
    PyList_Append(sizes, Ref::Steal(Py_BuildValue("(iOL)", s, is_size ? Py_True : Py_False, hint)).get());
  }
  const ir::Graph& graph = *closed.graph.graph;
  for (const std::size_t u : used) {
    Ref row = Ref::Create(Py_None);
    for (std::size_t i = 0; i < closed.graph.inputs.size(); ++i) {
      if (closed.graph.inputs[i].input_index != static_cast<int>(u)) continue;
      const ir::Value& v = graph.value(graph.inputs[i].value);
      row = Ref::Steal(
          Py_BuildValue("(NN)", TreesOf(graph.exprs, v.sizes).release(), TreesOf(graph.exprs, v.strides).release()));
    }
    PyList_Append(sizes, row);
  }
  return sizes;
}

FxGraph WithStaticSizes(const std::string& why) {
  FF_LOG(kDynamic) << "a graph for an FX backend is made anew without symbolic sizes: " << why;
  FxGraph refused;
  refused.refused_node = 0;
  refused.needs_static_sizes = true;
  refused.why_refused = why;
  return refused;
}

absl::StatusOr<FxGraph> Build(Capture& capture, const Closed& closed, BorrowedRef fx_backend, bool verify) {
  const HookScope native(HookMode::kOff);
  const StartState start(capture);
  const int pass = capture.fx().backward_pass();
  std::optional<at::AutoGradMode> without_grad;
  if (pass >= 0) without_grad.emplace(false);
  if (const char* why = pass < 0 ? nullptr : WhyHistoryIsNeeded(*closed.graph.graph)) return RefusedBefore(pass, why);
  if (const int node = NodeOfUntimelySizes(capture, closed); node >= 0) {
    return RefusedBefore(
        node, "sizes of an input beside a history, or of one that another shares, in a graph for an FX backend");
  }
  if (const int node = NodeOfDetachedView(closed); node >= 0) {
    FxGraph refused;
    refused.refused_node = node;
    refused.why_refused = "a view that was made while grad mode was off lives on, and has no history in eager";
    return refused;
  }
  const bool symbolic = capture.symbols().any_backed();
  const std::vector<Candidate> candidates = CandidatesOf(capture, closed);
  // (None, node, why) or (module, the inputs it has, whether all of it was journalled, host tensors' nodes, the symbols
  // it has, its nodes' numbers)
  const Ref built = BuildModule(capture, closed, fx_backend, candidates);
  if (!built && IsOutOfRoom()) return NoRoom();
  if (!built) return absl::InternalError(absl::StrCat("the FX graph could not be built: ", TakeErrorText()));
  FxGraph made;
  PyObject* second = PyTuple_GET_ITEM(built.get(), 1);
  if (PyTuple_GET_ITEM(built.get(), 0) == Py_None) {
    made.refused_node = static_cast<int>(PyLong_AsLong(second));
    made.why_refused = Utf8(PyTuple_GET_ITEM(built.get(), 2));
    return made;
  }
  made.module = Ref::Create(PyTuple_GET_ITEM(built.get(), 0));
  made.examples = Ref::Steal(PyList_New(0));
  std::vector<std::size_t> used;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(second); ++i) {
    used.push_back(static_cast<std::size_t>(PyLong_AsLong(PyList_GET_ITEM(second, i))));
    made.inputs.push_back(candidates[used.back()].source);
    PyList_Append(made.examples, candidates[used.back()].real);
  }
  PyObject* symbols = PyTuple_GET_ITEM(built.get(), 4);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(symbols); ++i) {
    made.symbols.push_back(static_cast<int>(PyLong_AsLong(PyList_GET_ITEM(symbols, i))));
  }
  if (symbolic) made.sizes = SizesOf(capture, closed, made.symbols, used);
  const bool journalled = PyTuple_GET_ITEM(built.get(), 2) == Py_True;
  // A number that stands where a symbolic one should would be seen at other sizes only.
  if (journalled && !verify && !symbolic && closed.graph.geometry_effects.empty()) return made;
  const std::optional<Difference> difference = Check(capture, closed, fx_backend, built, candidates, used);
  if (!difference) return made;
  if (difference->no_room) return NoRoom();
  if (symbolic) return WithStaticSizes(difference->text);
  if (journalled && config().raise_on_bug) {
    return absl::InternalError(absl::StrCat("the FX graph computes something else: ", difference->text));
  }
  FxGraph refused;
  refused.refused_node = difference->node;
  refused.why_refused = difference->text;
  return refused;
}

}  // namespace

absl::StatusOr<FxGraph> BuildFx(Capture& capture, const Closed& closed, BorrowedRef fx_backend, bool verify) {
  const ir::Graph& graph = *closed.graph.graph;
  if (UnbackedValues(graph).empty()) return Build(capture, closed, fx_backend, verify);
  FxGraph refused;
  refused.needs_no_unbacked = true;
  if (capture.symbols().any_backed() || ReliesOnUnbacked(graph)) return refused;
  absl::StatusOr<FxGraph> made = Build(capture, closed, fx_backend, verify);
  return made.ok() && made->refused_node < 0 && made->symbols.empty() ? std::move(made) : refused;
}

}  // namespace framefuse
