// The extension module framefuse._C: symbolic/dispatch/api.h and common's config and logs, made callable from Python.
// With package_bindings.cpp the only files that know pybind11. Invariant: no decision is taken here; arguments arrive
// checked by the package, and a Python error that a C++ function left set is raised as it is.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/builtin/builtin_backends.h"
#include "backends/graph/backend.h"
#include "backends/graph/recording_probe.h"
#include "backends/runtime/background_executable.h"
#include "backends/runtime/background_work.h"
#include "common/config.h"
#include "common/coverage.h"
#include "common/disk_cache.h"
#include "common/logging.h"
#include "common/status.h"
#include "common/trace.h"
#include "frame_eval/compiled_function.h"
#include "python/accuracy_probe.h"
#include "python/binding_values.h"
#include "python/cuda_graph_recorder.h"
#include "python/graph_plan.h"
#include "python/log_relay.h"
#include "python/package_bindings.h"
#include "symbolic/attempt/breaks_as_errors.h"
#include "symbolic/calls/sized_substitutes.h"
#include "symbolic/dispatch/api.h"
#include "symbolic/dispatch/compile_callbacks.h"
#include "symbolic/entry/deferred_warnings.h"
#include "symbolic/entry/entry_use.h"

namespace py = pybind11;

namespace framefuse {
namespace {

// ---- compiled functions

using TextPairs = std::vector<std::pair<std::string, std::string>>;

CompileOptions MakeOptions(bool fullgraph, std::optional<bool> dynamic, bool takes_sizes, bool tell_libraries,
                           std::string backend, std::string mode, TextPairs options, const py::object& fx_backend,
                           const py::object& fx_backend_identity, std::int64_t recompile_limit, std::string name) {
  CompileOptions result;
  result.tell_libraries = tell_libraries;
  result.fullgraph = fullgraph;
  result.dynamic = !dynamic ? DynamicMode::kWhatChanged : *dynamic ? DynamicMode::kAll : DynamicMode::kNever;
  if (!takes_sizes && dynamic.value_or(true)) result.dynamic = DynamicMode::kNumbers;
  result.backend = std::move(backend);
  result.mode = std::move(mode);
  result.recompile_limit = recompile_limit;
  result.name = std::move(name);
  result.options = std::move(options);
  result.fx_backend = ToRef(fx_backend);
  result.fx_backend_identity = ToRef(fx_backend_identity);
  return result;
}

py::list FramesToPython(const std::vector<ExplainFrame>& frames) {
  py::list result;
  for (const ExplainFrame& frame : frames) {
    result.append(py::make_tuple(frame.file, frame.line, frame.function, frame.source));
  }
  return result;
}

py::dict ReportToPython(const ExplainReport& report) {
  py::list graphs;
  for (const ExplainGraph& graph : report.graphs) {
    py::list operations;
    for (const Ref& operation : graph.operations) operations.append(py::handle(operation.get()));
    graphs.append(py::make_tuple(operations, graph.text, graph.id));
  }
  py::list breaks;
  for (const ExplainBreak& graph_break : report.breaks) {
    breaks.append(py::make_tuple(graph_break.reason, graph_break.hint, FramesToPython(graph_break.user_stack),
                                 graph_break.id, graph_break.expression, graph_break.module));
  }
  py::list fallbacks;
  for (const ExplainFallback& fallback : report.fallbacks) {
    fallbacks.append(
        py::make_tuple(fallback.name, fallback.reason, fallback.hint, FramesToPython({fallback.function})));
  }
  py::dict result;
  result["fallbacks"] = fallbacks;
  result["graphs"] = graphs;
  result["breaks"] = breaks;
  result["guards"] = report.guards;
  result["compile_times"] = report.compile_times;
  return result;
}

void BindCompile(py::module_& m) {
  py::class_<CompileOptions>(m, "CompileOptions")
      .def(py::init(&MakeOptions), py::kw_only(), py::arg("fullgraph") = false, py::arg("dynamic") = py::none(),
           py::arg("takes_sizes") = true, py::arg("tell_libraries") = false, py::arg("backend") = "fuse",
           py::arg("mode") = "default", py::arg("options") = TextPairs(), py::arg("fx_backend") = py::none(),
           py::arg("fx_backend_identity") = py::none(), py::arg("recompile_limit") = -1, py::arg("name") = "");
  m.def("make_compiled_function",
        [](const py::object& callable, const CompileOptions& options, const py::object& remake) {
          return ToPython(MakeCompiledFunction(Borrow(callable), options, Borrow(remake)));
        });
  m.def("set_suspended", [](const py::object& function) { SetSuspended(ToRef(function)); });
  m.def("resume", [](const py::object& function, const py::object& callable, const py::args& args) {
    std::vector<PyObject*> objects;
    for (const py::handle& arg : args) objects.push_back(arg.ptr());
    return ToPython(ResumeCompiled(Borrow(function), Borrow(callable), objects));
  });
  m.def("is_compiled_function", [](const py::object& object) { return IsCompiledFunction(Borrow(object)); });
  m.def("make_disabled_function", [](const py::object& callable, bool recursive, const py::object& remake) {
    return ToPython(MakeDisabledFunction(Borrow(callable), recursive, Borrow(remake)));
  });
  m.def("set_copying",
        [](const py::object& deep_copy, const py::object& reduce) { SetCopying(ToRef(deep_copy), ToRef(reduce)); });
  m.def("explain",
        [](const py::object& callable, const CompileOptions& options, const py::tuple& args, const py::dict& kwargs) {
          ExplainReport report;
          if (!Explain(Borrow(callable), options, Borrow(args), Borrow(kwargs), &report)) throw py::error_already_set();
          return ReportToPython(report);
        });
}

// ---- what captured code may call

void BindSpecialFunctions(py::module_& m) {
  m.def("is_compiling", &IsCapturing, "True in code that framefuse is capturing, False in code that Python runs.");
  m.def("ensure_lasting_device_guard", &EnsureLastingDeviceGuard);
  m.def(
      "graph_break", [] {}, "End the graph here; in code that Python runs this does nothing.");
  m.def(
      "cond",
      [](const py::object& pred, const py::object& true_fn, const py::object& false_fn, const py::object& operands) {
        const int holds = PyObject_IsTrue(pred.ptr());
        if (holds < 0) throw py::error_already_set();
        return (holds != 0 ? true_fn : false_fn)(*operands);
      },
      "What cond() does with a tensor where Python runs it.");
  RegisterSpecialFunction(Borrow(m.attr("cond")), SpecialFunction::kCond);
  m.def(
      "checkpoint", [](const py::object& function) { return function(); },
      "What a checkpoint does where Python runs it.");
  RegisterSpecialFunction(Borrow(m.attr("checkpoint")), SpecialFunction::kCheckpoint);
  m.def(
      "inference_mode", [](const py::args&) {},
      "In captured code: (mode), a block of inference mode begins; (), it ends.");
  RegisterSpecialFunction(Borrow(m.attr("inference_mode")), SpecialFunction::kInferenceMode);
  m.def(
      "check_deep_copy", [](const py::object&) {},
      "In captured code: ends the graph unless a deep copy has the values alone.");
  RegisterSpecialFunction(Borrow(m.attr("check_deep_copy")), SpecialFunction::kDeepCopyOfTensor);
  m.def(
      "defer_log", [](const py::args&) { return false; },
      "In captured code: whether the entry will emit a record of a log; its arguments are DeferLog's.");
  RegisterSpecialFunction(Borrow(m.attr("defer_log")), SpecialFunction::kLog);
  m.def(
      "set_warning_function", [](const py::object& function) { SetWarningFunction(Borrow(function)); },
      "What an entry says a warning with: (text, category, path, line, module).");
  RegisterSpecialFunction(Borrow(m.attr("is_compiling")), SpecialFunction::kIsCompiling);
  RegisterSpecialFunction(Borrow(m.attr("graph_break")), SpecialFunction::kGraphBreak);
  m.def(
      "register_substitute",
      [](const py::object& callable, const py::object& replacement, bool of_torch_only) {
        RegisterSubstitute(Borrow(callable), Borrow(replacement), of_torch_only);
      },
      py::arg("callable"), py::arg("replacement"), py::arg("of_torch_only") = false);
  m.def(
      "register_sized_substitute",
      [](const py::object& callable, const py::object& replacement, bool of_numbers) {
        AddSizedSubstitute(Borrow(callable), Borrow(replacement), of_numbers);
      },
      py::arg("callable"), py::arg("replacement"), py::arg("of_numbers") = false);
  m.def("replace_products", &ReplaceProducts,
        "Whether torch.matmul of symbolic sizes is recorded without torch's code, as it is before torch 2.13.");
  m.def("register_deferred", [](const py::object& callable) { RegisterDeferred(Borrow(callable)); });
  m.def("register_breaks_as_errors",
        [](const py::dict& globals, const py::str& name) { RegisterBreaksAsErrors(Borrow(globals), Borrow(name)); });
  m.def("set_compile_callbacks",
        [](const py::object& before, const py::object& after) { SetCompileCallbacks(ToRef(before), ToRef(after)); });
  m.def("register_mark", [](const py::object& callable) { RegisterMark(Borrow(callable)); });
  m.def("allow_in_graph", [](const py::object& callable) { AllowInGraph(Borrow(callable)); });
}

// ---- process-wide state

py::dict StatisticsToPython() {
  const Statistics statistics = GetStatistics();
  py::dict result;
  result["captures"] = statistics.captures;
  result["attempts"] = statistics.attempts;
  result["graphs"] = statistics.graphs;
  result["nodes"] = statistics.nodes;
  result["symbols"] = statistics.symbols;
  result["graph_breaks"] = statistics.graph_breaks;
  result["recompiles"] = statistics.recompiles;
  result["hits"] = statistics.hits;
  result["eager_fallbacks"] = statistics.eager_fallbacks;
  for (const auto& [name, count] : statistics.fallbacks_by_name) {
    result[py::str("eager_fallbacks." + name)] = count;
  }
  result["bugs"] = statistics.bugs;
  result["live_fakes"] = statistics.live_fakes;
  result["instructions"] = statistics.instructions;
  result["operators"] = statistics.operators;
  result["evaluation_seconds"] = statistics.evaluation_seconds;
  result["capture_seconds"] = statistics.capture_seconds;
  result["backend_seconds"] = statistics.backend_seconds;
  const BackgroundCounts background = GetBackgroundCounts();
  result["background.begun"] = background.begun;
  result["background.done"] = background.done;
  result["background.failed"] = background.failed;
  return result;
}

void BindState(py::module_& m) {
  m.def("initialize",
        [](const py::object& unsupported, const py::object& backend_error, const py::object& internal_error) {
          RegisterBuiltinBackends();
          RaiseIfError(Initialize({ToRef(unsupported), ToRef(backend_error), ToRef(internal_error)}));
        });
  py::enum_<Stance>(m, "Stance")
      .value("default", Stance::kDefault)
      .value("force_eager", Stance::kForceEager)
      .value("eager_on_recompile", Stance::kEagerOnRecompile)
      .value("fail_on_recompile", Stance::kFailOnRecompile)
      .value("eager_then_compile", Stance::kEagerThenCompile);
  m.def("get_stance", &GetStance);
  m.def("set_stance", &SetStance);
  m.def("reset", &Reset);
  m.def("statistics", &StatisticsToPython);
  m.def("wait_for_background", &WaitForBackground, py::call_guard<py::gil_scoped_release>());
  m.def("stop_background", &StopBackground, py::call_guard<py::gil_scoped_release>());
  m.def("set_counts_kinds", &SetCountsKinds);
  m.def("kind_counts", [] {
    std::vector<std::tuple<std::string, std::string, std::int64_t, std::int64_t>> result;
    for (const KindCount& k : KindCounts()) result.emplace_back(k.family, k.kind, k.yes, k.no);
    return result;
  });
  m.def("forget_kind_counts", &ForgetKindCounts);
}

// ---- config and logs

void BindConfig(py::module_& m) {
  m.def("config_settings", [] {
    std::vector<std::tuple<std::string, std::string, SettingValue>> result;
    for (const SettingInfo& info : ConfigSettings()) result.emplace_back(info.name, info.text, info.initial);
    return result;
  });
  m.def("get_config", [](const std::string& name) {
    const absl::StatusOr<SettingValue> value = GetConfig(name);
    RaiseIfError(value.status());
    return *value;
  });
  m.def("set_config", [](const std::string& name, const SettingValue& value) { RaiseIfError(SetConfig(name, value)); });
  m.def("set_config_from_text", [](const std::string& text) { RaiseIfError(SetConfigFromText(text)); });
}

// Records kept for Python between start_log_capture and stop_log_capture. The sink must not run Python, since a capture
// may be under way, so it only stores text.
struct CapturedLogs {
  std::mutex mutex;
  std::vector<std::pair<std::string, std::string>> records;
};
CapturedLogs& Captured() {
  static CapturedLogs* const captured = new CapturedLogs;
  return *captured;
}

LogSink sink_before_capture;

void StartLogCapture() {
  sink_before_capture = SetLogSink([](LogArtifact artifact, std::string_view text) {
    CapturedLogs& captured = Captured();
    const std::lock_guard<std::mutex> lock(captured.mutex);
    captured.records.emplace_back(LogName(artifact), std::string(text));
  });
}

std::vector<std::pair<std::string, std::string>> StopLogCapture() {
  SetLogSink(sink_before_capture);
  CapturedLogs& captured = Captured();
  const std::lock_guard<std::mutex> lock(captured.mutex);
  return std::exchange(captured.records, {});
}

void BindLogs(py::module_& m) {
  m.def("log_artifacts", [] {
    std::vector<std::pair<std::string, std::string>> result;
    for (const LogArtifactInfo& info : LogArtifacts()) result.emplace_back(info.name, info.text);
    return result;
  });
  m.def("set_log_enabled", [](const std::string& name, bool on) {
    const absl::StatusOr<LogArtifact> artifact = FindLogArtifact(name);
    RaiseIfError(artifact.status());
    SetLogEnabled(*artifact, on);
  });
  m.def("enable_logs_from_text", [](const std::string& text) { RaiseIfError(EnableLogsFromText(text)); });
  m.def("get_log_mask", &LogMask);
  m.def("set_log_mask", &SetLogMask);
  m.def("write_log", [](const std::string& name, const std::string& text) {
    const absl::StatusOr<LogArtifact> artifact = FindLogArtifact(name);
    RaiseIfError(artifact.status());
    if (LogEnabled(*artifact)) WriteLog(*artifact, text);
    DeliverLogs();
  });
  m.def("log_aliases", [] {
    std::vector<std::pair<std::string, std::string>> result;
    for (const LogAlias& alias : LogAliases()) {
      result.emplace_back(alias.theirs, std::string(alias.detailed ? "+" : "") + alias.ours);
    }
    return result;
  });
  m.def("start_log_relay", [](const py::object& deliver) { StartLogRelay(ToRef(deliver)); });
  m.def("stop_log_relay", &StopLogRelay);
  m.def("deliver_logs", &DeliverLogs);
  m.def("set_trace_header", &SetTraceHeader);
  m.def("follow_trace_folder", &FollowTraceFolder);
  m.def("write_trace_uses", &WriteUses, "What the entries were used for since they were written last.");
  m.def(
      "start_trace_collector", [](bool relayed) { return StartTraceCollector(relayed); }, py::arg("relayed") = false);
  m.def("take_trace_lines", &TakeTraceLines);
  m.def("set_trace_receiver", [](const py::object& receive) { SetTraceReceiver(ToRef(receive)); });
  m.def("stop_trace_collector", &StopTraceCollector);
  m.def("start_log_capture", &StartLogCapture);
  m.def("stop_log_capture", &StopLogCapture);
}

// ---- the disk cache

void BindCache(py::module_& m) {
  m.def("save_cache", [](const std::string& path) {
    absl::StatusOr<CacheFile> saved;
    {
      const py::gil_scoped_release released;
      saved = SaveCacheFile(DiskCache(), path);
    }
    RaiseIfFileError(saved.status());
    return std::pair(saved->entries, saved->sha256);
  });
  m.def("load_cache", [](const std::string& path, const std::string& sha256) {
    absl::StatusOr<std::size_t> loaded;
    {
      const py::gil_scoped_release released;
      loaded = LoadCacheFile(path, sha256);
    }
    RaiseIfFileError(loaded.status());
    return *loaded;
  });
}

// ---- graphs that torch.compile captured

void BindGraphs(py::module_& m) {
  py::class_<Plan, std::shared_ptr<Plan>>(m, "GraphPlan")
      .def(
          "__call__",
          [](const Plan& plan, const py::list& inputs, std::vector<std::int64_t> symbols) {
            return ToPython(RunPlan(plan, Borrow(inputs), std::move(symbols)));
          },
          py::arg("inputs"), py::arg("symbols") = std::vector<std::int64_t>());
  m.def(
      "compile_graph_text",
      [](const std::string& text, const std::string& backend, const std::string& mode, int first_kept_output,
         bool verify) {
        BackendOptions options;
        options.mode = mode;
        options.first_kept_output = first_kept_output;
        auto plan = CompileGraphText(text, backend, options, verify);
        RaiseIfError(plan.status());
        return *std::move(plan);
      },
      py::arg("text"), py::arg("backend"), py::arg("mode") = "default", py::arg("first_kept_output") = -1,
      py::arg("verify") = true);
  m.def("set_graph_recorder", [](const py::object& begin, const py::object& carries) {
    SetCudaGraphRecorder(MakeGraphRecorder(ToRef(begin), ToRef(carries)));
  });
  m.def("close_recordings_of_groups", &CloseRecordingsOfGroups);
  m.def("set_accuracy_probe", [](const py::object& begin) { SetAccuracyProbe(MakeAccuracyProbe(ToRef(begin))); });
  m.def("set_recording_probe", [](const py::object& probe) { SetRecordingProbe(MakeRecordingProbe(ToRef(probe))); });
  m.def("is_stream_recorded", &IsStreamRecorded, "Whether the calling thread's work is being recorded instead of run.");
}

}  // namespace
}  // namespace framefuse

PYBIND11_MODULE(_C, m) {
  m.doc() = "The C++ side of framefuse; use the package framefuse instead.";
  framefuse::BindCompile(m);
  framefuse::BindSpecialFunctions(m);
  framefuse::BindState(m);
  framefuse::BindConfig(m);
  framefuse::BindLogs(m);
  framefuse::BindCache(m);
  framefuse::BindGraphs(m);
  framefuse::BindPackages(m);
}
