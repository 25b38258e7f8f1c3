// ff_graph_testing: runs text graphs through backends from Python, for tests/graph/*.py.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/builtin/builtin_backends.h"
#include "backends/graph/backend.h"
#include "backends/passes/pass.h"
#include "common/status.h"

namespace py = pybind11;

namespace framefuse {
namespace {

template <typename T>
T ValueOrRaise(absl::StatusOr<T> v) {
  if (v.ok()) return *std::move(v);
  if (std::exception_ptr exception = TorchErrorOf(v.status())) std::rethrow_exception(exception);
  throw std::runtime_error(MessageOf(v.status()));
}

std::vector<at::Tensor> Tensors(const py::list& list) {
  std::vector<at::Tensor> tensors;
  for (py::handle h : list) tensors.push_back(THPVariable_Unpack(h.ptr()));
  return tensors;
}

py::list Wrap(const std::vector<at::Tensor>& tensors) {
  py::list list;
  for (const at::Tensor& t : tensors) {
    list.append(t.defined() ? py::reinterpret_steal<py::object>(THPVariable_Wrap(t)) : py::none());
  }
  return list;
}

class TestPlan {
 public:
  TestPlan(const std::string& text, const std::string& backend, bool save_all) {
    ir::Graph graph = ValueOrRaise(ir::Parse(text));
    Backend* found = FindBackend(backend);
    if (found == nullptr) throw std::runtime_error("no backend " + backend);
    BackendOptions options;
    options.keeps_text = true;
    options.save_all = save_all;
    plan_ = ValueOrRaise(found->Compile(std::move(graph), options));
  }

  py::list Run(const py::list& inputs, std::vector<std::int64_t> symbols) const {
    HANDLE_TH_ERRORS
    std::vector<at::Tensor> tensors = Tensors(inputs);
    absl::StatusOr<std::vector<at::Tensor>> outputs = absl::UnknownError("");
    {
      py::gil_scoped_release release;
      outputs = plan_->Run(tensors, absl::MakeSpan(symbols));
    }
    return Wrap(ValueOrRaise(std::move(outputs)));
    END_HANDLE_TH_ERRORS_PYBIND
  }

  // The status' message: "op (line): what torch said".
  std::string Failure(const py::list& inputs, std::vector<std::int64_t> symbols) const {
    std::vector<at::Tensor> tensors = Tensors(inputs);
    absl::StatusOr<std::vector<at::Tensor>> outputs = plan_->Run(tensors, absl::MakeSpan(symbols));
    return outputs.ok() ? "" : MessageOf(outputs.status());
  }

  // Nanoseconds a call, without Python in the loop.
  double Time(const py::list& inputs, std::vector<std::int64_t> symbols, int calls) const {
    std::vector<at::Tensor> tensors = Tensors(inputs);
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) (void)plan_->Run(tensors, absl::MakeSpan(symbols));
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / calls;
  }

  // Each thread runs the plan `calls` times; the outputs of each thread's last call.
  std::vector<py::list> RunThreads(const py::list& inputs, int threads, int calls) const {
    std::vector<at::Tensor> tensors = Tensors(inputs);
    std::vector<absl::StatusOr<std::vector<at::Tensor>>> results(static_cast<std::size_t>(threads),
                                                                 absl::UnknownError(""));
    {
      py::gil_scoped_release release;
      std::vector<std::thread> running;
      for (auto& result : results) {
        running.emplace_back([&] {
          for (int c = 0; c < calls; ++c) {
            result = plan_->Run(tensors, {});
            if (!result.ok()) break;
          }
        });
      }
      for (std::thread& t : running) t.join();
    }
    std::vector<py::list> lists;
    for (auto& result : results) lists.push_back(Wrap(ValueOrRaise(std::move(result))));
    return lists;
  }

  py::dict Explain() const {
    PlanExplanation e = plan_->Explain();
    py::dict d;
    d["backend"] = e.backend;
    d["forward"] = e.forward_graph;
    d["backward"] = e.backward_graph;
    d["saved_bytes"] = e.saved_bytes;
    py::list groups;
    for (const PlanGroup& g : e.forward) groups.append(g.description);
    d["groups"] = groups;
    py::dict phases;
    for (const PhaseTime& p : e.phases) phases[py::str(p.name)] = p.milliseconds;
    d["phases"] = phases;
    return d;
  }

 private:
  std::shared_ptr<Plan> plan_;
};

}  // namespace
}  // namespace framefuse

PYBIND11_MODULE(ff_graph_testing, m) {
  using framefuse::TestPlan;
  framefuse::RegisterBuiltinBackends();
  m.def("backends", &framefuse::ListBackends);
  m.def("round_trip", [](const std::string& text) {
    return framefuse::ir::Print(framefuse::ValueOrRaise(framefuse::ir::Parse(text)));
  });
  m.def("functionalize", [](const std::string& text) {
    framefuse::ir::Graph g = framefuse::ValueOrRaise(framefuse::ir::Parse(text));
    framefuse::ValueOrRaise(framefuse::Functionalize(g));
    return framefuse::ir::Print(g);
  });
  py::class_<TestPlan>(m, "Plan")
      .def(py::init<const std::string&, const std::string&, bool>(), py::arg("text"), py::arg("backend") = "aten",
           py::arg("save_all") = false)
      .def("run", &TestPlan::Run, py::arg("inputs"), py::arg("symbols") = std::vector<std::int64_t>())
      .def("failure", &TestPlan::Failure, py::arg("inputs"), py::arg("symbols") = std::vector<std::int64_t>())
      .def("run_threads", &TestPlan::RunThreads)
      .def("time", &TestPlan::Time)
      .def("explain", &TestPlan::Explain);
}
