#include "symbolic/tracing/record_backward.h"

#include <exception>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "frame_eval/ref.h"
#include "frame_eval/versions/frame_ops.h"
#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/state.h"

namespace framefuse::tracing {
namespace {

// Whether a node from `node` on writes memory of a value before `value`.
bool WritesMemoryOfEarlier(const ir::Graph& graph, std::size_t node, std::size_t value) {
  absl::flat_hash_map<ir::StorageId, bool> earlier;
  bool found = false;
  for (std::size_t n = node; n < graph.nodes.size(); ++n) {
    const ir::Node& written = graph.nodes[n];
    if (!written.op->mutates()) continue;
    for (std::size_t v = 0; earlier.empty() && v < value; ++v) earlier[graph.values[v].storage] = true;
    const auto& schema = written.op->arguments();
    for (std::size_t a = 0; a < written.args.size(); ++a) {
      if (!schema[a].written) continue;
      ir::ForEachValue(written.args[a],
                       [&](ir::ValueId v) { found = found || earlier.contains(graph.value(v).storage); });
    }
  }
  return found;
}

// Takes what torch has left of an exception in Python, which another pass would find. Empty: there is none.
std::string TakeRaised() {
  if (PyErr_Occurred() == nullptr) return {};
  const Ref raised = frame_ops::FetchRaised(PyThreadState_Get());
  const Ref text = Ref::Steal(PyObject_Str(raised));
  const char* said = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  return absl::StrCat(raised.type()->tp_name, said != nullptr && *said != '\0' ? ": " : "",
                      said != nullptr ? said : "");
}

std::string RunPass(Recorder& recorder, const std::vector<at::Tensor>& outputs, std::vector<at::Tensor> targets,
                    BackwardPass* pass) {
  const bool among_outputs = outputs.size() > 1 && !targets.empty();
  if (among_outputs) targets.insert(targets.end(), outputs.begin(), outputs.end());
  std::string error;
  bool failed = false;
  recorder.SetPhase(ir::Phase::kBackward);
  PyThreadState* thread = PyEval_SaveThread();  // the engine waits for threads that may want the GIL
  try {
    pass->gradients = Gradients(outputs, targets, pass->tangents);
  } catch (const std::exception& e) {
    error = e.what();
    failed = true;
  }
  PyEval_RestoreThread(thread);
  const std::string raised = failed ? TakeRaised() : std::string();
  if (failed && error.empty()) error = raised.empty() ? "an exception without a text" : raised;
  recorder.SetPhase(ir::Phase::kForward);
  if (error.empty() && among_outputs) {
    const auto of_outputs = pass->gradients.end() - static_cast<std::ptrdiff_t>(outputs.size());
    pass->output_gradients.assign(of_outputs, pass->gradients.end());
    pass->gradients.erase(of_outputs, pass->gradients.end());
  }
  return error;
}

}  // namespace

std::string UnderivableIn(std::string_view error) {
  constexpr std::string_view kBefore = "derivative for ", kAfter = " is not implemented";
  const std::size_t begin = error.find(kBefore), end = error.find(kAfter);
  if (begin != 0 || end == std::string_view::npos) return {};
  return std::string(error.substr(kBefore.size(), end - kBefore.size()));
}

absl::StatusOr<BackwardPass> RecordBackwardPass(Recorder& recorder, const std::vector<at::Tensor>& outputs,
                                                const std::vector<at::Tensor>& targets) {
  BackwardPass pass;
  for (const at::Tensor& t : outputs) {
    pass.tangents.push_back(
        recorder.NewFake(LikeTensor(t, t.scalar_type()), t.device(), nullptr, recorder.NewStorage()));
  }
  if (outputs.empty()) return pass;
  ir::Graph& graph = recorder.graph();
  const std::size_t forward_nodes = graph.nodes.size();
  const std::size_t forward_values = graph.values.size();
  std::string error = RunPass(recorder, outputs, targets, &pass);
  if (error.empty() && recorder.formulas().extremum().expects_comparison())
    error = "it depends on the values of a tensor";
  if (error.empty() && WritesMemoryOfEarlier(graph, forward_nodes, forward_values)) {
    error = "a backward function writes to a tensor that it was given";
  }
  if (error.empty()) return pass;
  ForgetUnrunTasks();
  graph.nodes.resize(forward_nodes);
  if (recorder.pending_break()) {
    return absl::FailedPreconditionError("in the backward pass, " + recorder.pending_break()->context + ": " +
                                         recorder.pending_break()->explanation);
  }
  if (error.find("backward through the graph a second time") != std::string::npos || !UnderivableIn(error).empty()) {
    return absl::AbortedError(error);
  }
  error = "the backward pass cannot be recorded: " + error.substr(0, error.find('\n'));  // no C++ stack
  recorder.SetPendingBreak({BreakKind::kHiddenState, "backward", error, {}});
  return absl::FailedPreconditionError("backward: " + error);
}

}  // namespace framefuse::tracing
