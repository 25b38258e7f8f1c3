// ff_tracing_testing: drives the tracer from Python, without the evaluator. Functions run natively on fakes.
// `execute` runs a recorded graph node by node on real tensors and is the metadata oracle: sizes, strides, dtype,
// device and sharing of memory of every value are compared with what the recorder said.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceType.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "backends/graph/graph.h"
#include "symbolic/tracing/sized_products.h"
#include "symbolic/tracing/tracer.h"

namespace py = pybind11;

namespace framefuse::tracing {
namespace {

py::object Owned(Ref ref) { return py::reinterpret_steal<py::object>(ref.release()); }

struct TestTracer : OriginProvider {
  Tracer tracer;
  std::unique_ptr<Tracer::Scope> scope;
  int line = 0;
  std::int32_t Current() override { return line; }
  ir::Origin Resolve(std::int32_t id) override { return {"test.py", id, "f", "source", "call"}; }
  TestTracer() { tracer.SetOriginProvider(this); }
};

template <typename T>
T Value(absl::StatusOr<T> v) {
  if (!v.ok()) throw std::runtime_error(std::string(v.status().message()));
  return std::move(v).value();
}

struct Closed {
  TracedGraph traced;
  std::string Text() const { return ir::Print(*traced.graph); }
};

py::object Wrap(const at::Tensor& t) {
  return t.defined() ? py::reinterpret_steal<py::object>(THPVariable_Wrap(t)) : py::object(py::none());
}

// Runs nodes in order; undefined tensors for values that were never made.
class Executor {
 public:
  Executor(const ir::Graph& g, bool check) : g_(g), check_(check), values_(g.values.size()) {}

  void Set(ir::ValueId v, at::Tensor t) { values_[static_cast<std::size_t>(v)] = std::move(t); }
  const at::Tensor& Get(ir::ValueId v) const {
    const at::Tensor& t = values_[static_cast<std::size_t>(v)];
    if (!t.defined()) throw std::runtime_error("value " + std::to_string(v) + " is not defined");
    return t;
  }

  void RunPhase(ir::Phase phase) {
    for (const ir::Node& n : g_.nodes) {
      if (n.phase == phase) RunNode(n);
    }
  }
  const std::vector<std::string>& mismatches() const { return mismatches_; }
  std::size_t checked() const { return checked_; }

 private:
  c10::IValue Argument(const ir::Arg& a, ir::ArgType type) const {
    switch (a.kind) {
      case ir::Arg::Kind::kNone:
        return {};
      case ir::Arg::Kind::kConstant:
        return a.constant;
      case ir::Arg::Kind::kValue:
        return Get(a.value);
      case ir::Arg::Kind::kValueList:
        if (type == ir::ArgType::kOptionalTensorList) {
          c10::List<std::optional<at::Tensor>> list;
          for (ir::ValueId v : a.values) list.push_back(v < 0 ? std::nullopt : std::optional<at::Tensor>(Get(v)));
          return list;
        } else {
          c10::List<at::Tensor> list;
          for (ir::ValueId v : a.values) list.push_back(Get(v));
          return list;
        }
      default:
        throw std::runtime_error("symbolic argument");
    }
  }

  void RunNode(const ir::Node& n) {
    torch::jit::Stack stack;
    for (std::size_t i = 0; i < n.args.size(); ++i) stack.push_back(Argument(n.args[i], n.op->arguments()[i].type));
    n.op->handle().callBoxed(&stack);
    std::size_t next = 0;
    for (const c10::IValue& v : stack) {
      if (v.isTensorList()) {
        for (const c10::IValue& e : v.toListRef()) Bind(n, next++, e.toTensor());
      } else {
        Bind(n, next++, v.isTensor() ? v.toTensor() : at::Tensor());
      }
    }
    if (next != n.outputs.size()) Mismatch(n, "number of outputs");
  }

  void Bind(const ir::Node& n, std::size_t i, const at::Tensor& t) {
    const ir::ValueId v = i < n.outputs.size() ? n.outputs[i] : ir::kNoValue;
    if (v == ir::kNoValue) {
      const auto& returns = n.op->returns();
      const bool is_written = n.list_sizes.empty() && i < returns.size() && returns[i].written_argument >= 0;
      if (check_ && t.defined() && !is_written && n.list_sizes.empty()) Mismatch(n, "an output was thought undefined");
      return;
    }
    if (!t.defined()) return Mismatch(n, "an output is undefined");
    values_[static_cast<std::size_t>(v)] = t;
    if (check_) Check(n, v, t);
  }

  void Mismatch(const ir::Node& n, const std::string& what) { mismatches_.push_back(n.op->name() + ": " + what); }

  // The workspace of mkldnn's recurrent layers: bytes whose number only the library knows.
  static bool IsOpaque(const ir::Node& n, const at::Tensor& t) {
    return n.op->name() == "aten.mkldnn_rnn_layer" && t.scalar_type() == c10::ScalarType::Byte;
  }

  static std::string Show(const std::vector<ir::Dim>& dims) {
    std::string s = "[";
    for (const ir::Dim& d : dims) s += std::to_string((d.is_constant() ? d.constant() : 0)) + ",";
    return s + "]";
  }

  void Check(const ir::Node& n, ir::ValueId id, const at::Tensor& t) {
    ++checked_;
    const ir::Value& v = g_.value(id);
    std::vector<ir::Dim> sizes(t.sizes().begin(), t.sizes().end());
    std::vector<ir::Dim> strides(t.strides().begin(), t.strides().end());
    if (IsOpaque(n, t)) return;
    if (sizes != v.sizes) return Mismatch(n, "sizes " + Show(v.sizes) + " are " + Show(sizes));
    if (t.scalar_type() != v.dtype)
      return Mismatch(n, std::string("dtype ") + c10::toString(v.dtype) + " is " + c10::toString(t.scalar_type()));
    if (t.device() != v.device) return Mismatch(n, "device");
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      // The stride of a dimension of one element has no meaning.
      if (t.numel() == 0 || sizes[d] == ir::Dim(1) || strides[d] == v.strides[d]) continue;
      Mismatch(n, "strides " + Show(v.strides) + " are " + Show(strides) + " of sizes " + Show(sizes));
      break;
    }
    CheckSharing(n, id, t);
  }

  // A fresh value shares memory with no earlier one; a view with the values of its storage.
  void CheckSharing(const ir::Node& n, ir::ValueId id, const at::Tensor& t) {
    const void* memory = t.storage().unsafeGetStorageImpl();
    const ir::StorageId storage = g_.value(id).storage;
    auto [it, inserted] = storages_.try_emplace(storage, memory);
    if (!inserted && it->second != memory) Mismatch(n, "was thought to share memory");
    auto [back, fresh] = memories_.try_emplace(memory, storage);
    if (!fresh && back->second != storage) Mismatch(n, "was thought to have memory of its own");
    kept_.push_back(t);
  }

 public:
  void NoteInput(ir::ValueId id, const at::Tensor& t) {
    storages_[g_.value(id).storage] = t.storage().unsafeGetStorageImpl();
    memories_[t.storage().unsafeGetStorageImpl()] = g_.value(id).storage;
    kept_.push_back(t);
  }

 private:
  const ir::Graph& g_;
  bool check_;
  std::vector<at::Tensor> values_;
  std::vector<std::string> mismatches_;
  std::map<ir::StorageId, const void*> storages_;
  std::map<const void*, ir::StorageId> memories_;
  std::vector<at::Tensor> kept_;  // so that no address is used twice
  std::size_t checked_ = 0;
};

// Tangents are coerced to the strides that were recorded, as a plan does.
at::Tensor WithRecordedStrides(const ir::Value& v, const at::Tensor& t) {
  std::vector<std::int64_t> strides;
  for (const ir::Dim& d : v.strides) strides.push_back(d.constant());
  at::Tensor coerced = at::empty_strided(t.sizes(), strides, t.options());
  coerced.copy_(t);
  return coerced;
}

// inputs: real tensors in the order of traced.inputs; tangents: one for each tangent input, in order (may be None
// when no backward is wanted). Returns (user outputs, gradients by graph input, mismatches, values checked).
py::tuple Execute(const Closed& closed, const std::vector<py::object>& inputs, const std::vector<py::object>& tangents,
                  bool check) {
  const ir::Graph& g = *closed.traced.graph;
  Executor executor(g, check);
  for (const ir::ConstantTensor& c : g.constants) executor.Set(c.value, c.tensor);
  std::size_t next_input = 0, next_tangent = 0;
  for (const ir::Input& in : g.inputs) {
    const bool tangent = in.role == ir::InputRole::kTangent;
    py::object o =
        tangent ? (next_tangent < tangents.size() ? tangents[next_tangent] : py::none()) : inputs.at(next_input);
    ++(tangent ? next_tangent : next_input);
    if (o.is_none()) continue;
    at::Tensor t = THPVariable_Unpack(o.ptr()).detach();
    if (tangent) t = WithRecordedStrides(g.value(in.value), t);
    executor.Set(in.value, t);
    executor.NoteInput(in.value, t);
  }
  std::vector<py::object> outputs;
  std::vector<std::pair<int, py::object>> gradients;
  {
    // Below autograd, with grad mode as at capture: mkldnn_rnn_layer makes its workspace only if that is on.
    at::AutoDispatchBelowADInplaceOrView below;
    c10::AutoGradMode mode(g.has_backward());
    executor.RunPhase(ir::Phase::kForward);
    for (const ir::Output& o : g.outputs) {
      if (o.role == ir::OutputRole::kUser) outputs.push_back(Wrap(executor.Get(o.value)));
    }
    if (!tangents.empty()) {
      executor.RunPhase(ir::Phase::kBackward);
      for (const ir::Output& o : g.outputs) {
        if (o.role != ir::OutputRole::kGradient) continue;
        gradients.emplace_back(o.input, o.value == ir::kNoValue ? py::object(py::none()) : Wrap(executor.Get(o.value)));
      }
    }
  }
  return py::make_tuple(outputs, gradients, executor.mismatches(), executor.checked());
}

py::object DescribeInputs(const Closed& c) {
  py::list rows;
  std::size_t next = 0;
  for (const ir::Input& in : c.traced.graph->inputs) {
    py::dict row;
    const bool tangent = in.role == ir::InputRole::kTangent;
    row["tangent_of"] = in.tangent_of;
    row["mutated"] = in.mutated;
    row["mutated_without_grad"] = in.mutated_without_grad;
    row["overlap_class"] = in.overlap_class;
    row["index"] = tangent ? -1 : c.traced.inputs[next].input_index;
    row["gradient_of"] = tangent ? -1 : c.traced.inputs[next].gradient_of;
    row["version_bumps"] = tangent ? 0 : c.traced.inputs[next].version_bumps;
    if (!tangent) ++next;
    rows.append(row);
  }
  return rows;
}

py::object DescribeOutputs(const Closed& c) {
  static constexpr const char* kRoles[] = {"user", "mutated", "hidden", "gradient"};
  static constexpr const char* kAliases[] = {"fresh", "input", "view_of_input", "view_of_output", "output"};
  py::list rows;
  for (const ir::Output& o : c.traced.graph->outputs) {
    py::dict row;
    row["role"] = kRoles[static_cast<int>(o.role)];
    row["alias"] = kAliases[static_cast<int>(o.alias)];
    row["alias_of"] = o.alias_of;
    row["input"] = o.input;
    row["requires_grad"] = o.requires_grad;
    row["dtype"] = o.value == ir::kNoValue ? "" : c10::toString(c.traced.graph->value(o.value).dtype);
    row["sizes"] = [&] {
      std::vector<std::int64_t> s;
      if (o.value != ir::kNoValue)
        for (const ir::Dim& d : c.traced.graph->value(o.value).sizes) s.push_back(d.constant());
      return s;
    }();
    rows.append(row);
  }
  return rows;
}

InputRole RoleOf(const std::string& role) {
  if (role == "parameter") return InputRole::kParameter;
  return role == "buffer" ? InputRole::kBuffer : InputRole::kArgument;
}

py::object PendingBreak(TestTracer& t) {
  const auto& b = t.tracer.PendingBreak();
  if (!b) return py::none();
  return py::make_tuple(std::string(BreakKindName(b->kind)), b->context, b->explanation);
}

py::dict StatisticsOf(const TestTracer& t) {
  TracerStatistics s = t.tracer.Statistics();
  py::dict d;
  d["nodes"] = s.nodes;
  d["own_shapes"] = s.own_shapes;
  d["cpp_meta"] = s.cpp_meta;
  d["composite_meta"] = s.composite_meta;
  d["runs_for_metadata"] = s.runs_for_metadata;
  d["python_meta"] = s.python_meta;
  d["python_ops"] = s.python_ops;
  return d;
}

py::object Multiply(py::handle left, py::handle right) {
  const auto product = MultiplyAsTorch(THPVariable_Unpack(left.ptr()), THPVariable_Unpack(right.ptr()));
  return product ? Wrap(*product) : py::object(py::none());
}

}  // namespace
}  // namespace framefuse::tracing

PYBIND11_MODULE(ff_tracing_testing, m) {
  using namespace framefuse;           // NOLINT: a test module
  using namespace framefuse::tracing;  // NOLINT
  py::class_<Closed>(m, "Closed")
      .def("text", &Closed::Text)
      .def("inputs", &DescribeInputs)
      .def("outputs", &DescribeOutputs)
      .def("execute", &Execute, py::arg("inputs"), py::arg("tangents") = std::vector<py::object>(),
           py::arg("check") = true)
      .def_property_readonly("num_outputs", [](const Closed& c) { return c.traced.num_outputs; })
      .def_property_readonly("gradients_read", [](const Closed& c) { return c.traced.gradients_read; })
      .def_property_readonly("num_nodes", [](const Closed& c) { return c.traced.graph->nodes.size(); })
      .def_property_readonly("has_backward", [](const Closed& c) { return c.traced.graph->has_backward(); })
      .def_property_readonly("gradient_effects", [](const Closed& c) {
        std::vector<std::pair<int, int>> v;
        for (const GradientEffect& e : c.traced.gradient_effects) v.emplace_back(e.input_index, e.output);
        return v;
      });
  py::class_<TestTracer>(m, "Tracer")
      .def(py::init<>())
      .def("begin", [](TestTracer& t) { t.scope = std::make_unique<Tracer::Scope>(t.tracer); })
      .def("end", [](TestTracer& t) { t.scope.reset(); })
      .def("make_input",
           [](TestTracer& t, py::handle real, const std::string& role, int index, const std::string& name) {
             return Owned(Value(t.tracer.MakeInput(real.ptr(), RoleOf(role), index, name)));
           })
      .def("register_constant", [](TestTracer& t, py::handle real,
                                   bool copy) { return Owned(Value(t.tracer.RegisterConstant(real.ptr(), copy))); })
      .def("real_of",
           [](TestTracer& t, py::handle fake) {
             Ref r = t.tracer.RealOf(fake.ptr());
             return r ? Owned(std::move(r)) : py::object(py::none());
           })
      .def("value_of", [](TestTracer& t, py::handle fake) { return t.tracer.ValueOf(fake.ptr()); })
      .def("pending_break", &PendingBreak)
      .def("set_line", [](TestTracer& t, int line) { t.line = line; })
      .def("node_count", [](TestTracer& t) { return t.tracer.NodeCount(); })
      .def(
          "close",
          [](TestTracer& t, const std::vector<py::object>& outputs, bool backward) {
            std::vector<BorrowedRef> refs;
            for (const py::object& o : outputs) refs.emplace_back(o.ptr());
            return Closed{Value(t.tracer.Close(refs, backward))};
          },
          py::arg("outputs"), py::arg("backward") = true)
      .def("drop", [](TestTracer& t) { t.tracer.Drop(); })
      .def("statistics", &StatisticsOf);
  m.def("is_fake", [](py::handle h) { return Tracer::IsFake(h.ptr()); });
  m.def("live_fakes", &Tracer::LiveFakes);
  m.def("multiply_as_torch", &Multiply);
}
