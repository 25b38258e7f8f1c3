#include "symbolic/capture/reporting.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/config.h"
#include "common/logging.h"
#include "symbolic/capture/break_hints.h"
#include "symbolic/capture/code_text.h"

namespace framefuse {
namespace {

PythonErrors& Errors() {
  static auto* errors = new PythonErrors();
  return *errors;
}

Stance stance = Stance::kDefault;

std::string Where(PyCodeObject* code) {
  return absl::StrCat(QualifiedNameOf(code), " (", FileNameOf(code), ":", code->co_firstlineno, ")");
}

void SetError(const Ref& type, const std::string& message) {
  PyErr_SetString(type ? type.get() : PyExc_RuntimeError, message.c_str());
}

// A warning turned into an error must not change what the program does.
void Warn(PyCodeObject* code, const std::string& message) {
  // No registry: one would be written into the globals of the user's module.
  if (PyErr_WarnExplicit(PyExc_RuntimeWarning, message.c_str(), FileNameOf(code).c_str(), code->co_firstlineno,
                         "framefuse", nullptr) < 0) {
    PyErr_WriteUnraisable(nullptr);
  }
}

}  // namespace

Statistics& MutableStatistics() {
  static Statistics statistics;
  return statistics;
}

void InstallErrors(PythonErrors errors) { Errors() = std::move(errors); }
Stance GetStance() { return stance; }
void SetStance(Stance s) { stance = s; }

namespace {

// Who called it: all of them, or of a place in a library the nearest line of the user's.
std::string CalledFrom(const GraphBreakReason& reason, bool all) {
  std::string text;
  for (auto place = reason.callers.rbegin(); place != reason.callers.rend(); ++place) {
    if (!all && (reason.is_user || !place->is_user)) continue;
    absl::StrAppend(&text, "\n  called from ", place->file, ":", place->line, " in ", place->function, ": ",
                    place->source);
    if (!all) break;
  }
  return text;
}

std::string WhatBroke(const GraphBreakReason& reason, bool all_callers) {
  return absl::StrCat(reason.file, ":", reason.line, " in ", reason.function, ": ", reason.source,
                      CalledFrom(reason, all_callers), "\n  ", reason.Text(), "\n  hint: ", HintOf(reason));
}

}  // namespace

void LogGraphBreak(const GraphBreakReason& reason) {
  if (!LogEnabled(LogArtifact::kGraphBreaks)) return;
  FF_LOG(kGraphBreaks) << "graph break at " << WhatBroke(reason, LogDetailed(LogArtifact::kGraphBreaks));
}

void LogEntry(const CompiledEntry& entry, PyCodeObject* code) {
  if (LogEnabled(LogArtifact::kGuards)) {
    FF_LOG(kGuards) << entry.guards->PythonText(NameOf(code));
    for (const ExpectedOutput& e : entry.expected) {
      FF_LOG(kGuards) << "looked at behind the graph: the branch at " << e.place << " tests a value that is "
                      << (e.truth ? "true" : "false") << ", else Python runs the function and raises";
    }
  }
  if (LogEnabled(LogArtifact::kGraph)) FF_LOG(kGraph) << Where(code) << "\n" << entry.graph_text;
}

void LogTimes(const AttemptResult& made, PyCodeObject* code) {
  if (!LogEnabled(LogArtifact::kPerf)) return;
  std::string text = absl::StrFormat("%s: capture %.2f ms in %d runs, backend %.2f ms", Where(code),
                                     made.capture_seconds * 1e3, made.attempts, made.backend_seconds * 1e3);
  if (made.entry->executable != nullptr) {
    for (const PhaseTime& p : made.entry->executable->CompileTimes()) {
      absl::StrAppendFormat(&text, "\n  %-32s %8.3f ms", p.name, p.milliseconds);
    }
  }
  FF_LOG(kPerf) << text;
}

namespace {

std::string NamedPlace(PyCodeObject* code, const std::string& name) {
  return name.empty() ? Where(code) : absl::StrCat(Where(code), " of ", name);
}

std::string AtTheLimit(const std::string& limit, const std::string& failed_guard) {
  const std::string hint = HintOfRecompile(failed_guard);
  return absl::StrCat(limit, ", and it was compiled as often. The guard that failed most: ", failed_guard,
                      hint.empty() ? "" : absl::StrCat(". Hint: ", hint));
}

}  // namespace

void WarnRecompileLimit(PyCodeObject* code, const std::string& name, const std::string& limit,
                        const std::string& failed_guard) {
  Warn(code, absl::StrCat("framefuse: ", NamedPlace(code, name),
                          " runs as Python from now on: ", AtTheLimit(limit, failed_guard)));
}

void WarnRecordedStream(PyCodeObject* code) {
  Warn(code, absl::StrCat("framefuse: ", Where(code),
                          " runs as Python: ", MakeFallback(FallbackKind::kRecordedStream, code, "").Text(), "; ",
                          FallbackHint(FallbackKind::kRecordedStream)));
}

namespace {

void SetUnsupported(const std::string& message, const std::string& reason) {
  if (!Errors().unsupported) return SetError(Ref(), message);
  Ref text = Ref::Steal(PyUnicode_FromString(message.c_str()));
  Ref why = Ref::Steal(PyUnicode_FromString(reason.c_str()));
  Ref error = Ref::Steal(PyObject_CallFunctionObjArgs(Errors().unsupported, text.get(), why.get(), nullptr));
  if (error) PyErr_SetObject(Errors().unsupported, error);
}

}  // namespace

void RaiseRecompileLimit(PyCodeObject* code, const std::string& name, const std::string& limit,
                         const std::string& failed_guard) {
  SetUnsupported(absl::StrCat("config.fail_on_recompile_limit_hit, but ", NamedPlace(code, name),
                              " would run as Python: ", AtTheLimit(limit, failed_guard)),
                 limit);
}

void RaiseUnsupported(const GraphBreakReason& reason) {
  SetUnsupported(absl::StrCat("fullgraph=True, but the graph breaks at ", WhatBroke(reason, true)), reason.Text());
}

void RaiseUnsupported(const EagerFallback& fallback) {
  SetUnsupported(absl::StrCat("fullgraph=True, but ", fallback.function, " (", fallback.file, ":", fallback.line,
                              ") cannot be compiled\n  ", fallback.Text(), "\n  hint: ", FallbackHint(fallback.kind)),
                 fallback.Text());
}

void ReportFailure(const absl::Status& status, const Ref& error, PyCodeObject* code, bool* raised) {
  const std::string message = absl::StrCat(Where(code), ": ", std::string(status.message()));
  if (error) {  // an FX backend raised: that is the user's error to see
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error);
    *raised = true;
    return;
  }
  if (config().raise_on_bug) {
    SetError(Errors().internal_error, message);
    *raised = true;
    return;
  }
  static auto* seen = new absl::flat_hash_set<std::string>();
  if (seen->insert(message).second) FF_LOG(kBugs) << message << "; the frame runs as Python";
}

bool AllowsCompile(bool has_entries, bool expected, PyCodeObject* code, absl::FunctionRef<std::string()> why,
                   bool* raised) {
  const auto refuse = [&](const char* setting) {
    const std::string reason = why();
    SetError(Ref(), absl::StrCat(has_entries ? "recompilation of " : "compilation of ", Where(code), setting,
                                 reason.empty() ? "" : ": ", reason));
    *raised = true;
    return false;
  };
  switch (stance) {
    case Stance::kDefault:
      if (!has_entries || !config().error_on_recompile) return true;
      return refuse(" with config.error_on_recompile");
    case Stance::kForceEager:
    case Stance::kEagerOnRecompile:
      return false;
    case Stance::kFailOnRecompile:
      return expected && refuse(" under the stance fail_on_recompile");
  }
  return true;
}

}  // namespace framefuse
