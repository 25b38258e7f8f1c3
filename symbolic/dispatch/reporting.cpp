#include "symbolic/dispatch/reporting.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/compile_id.h"
#include "common/config.h"
#include "common/logging.h"
#include "common/trace.h"
#include "symbolic/dispatch/capture_trace.h"
#include "symbolic/messages/break_hints.h"
#include "symbolic/messages/code_text.h"

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

std::string CallerText(const CodePlace& place) {
  return absl::StrCat("\n  called from ", place.file, ":", place.line, " in ", place.function, ": ", place.source);
}

// Outermost first.
std::string NearestUser(const std::vector<const std::vector<CodePlace>*>& stack) {
  for (auto part = stack.rbegin(); part != stack.rend(); ++part) {
    const auto place = std::find_if((*part)->rbegin(), (*part)->rend(), [](const CodePlace& p) { return p.is_user; });
    if (place != (*part)->rend()) return CallerText(*place);
  }
  return "";
}

// Who called it: all that compiled code runs and the user's lines further out, or of a place in a library the nearest
// line of the user's.
std::string CallersOf(const GraphBreakReason& reason, const UserStack& stack, bool all) {
  if (!all) return reason.is_user ? "" : NearestUser({&stack.callers, &stack.frames, &reason.callers});
  std::string text;
  for (const auto* part : {&reason.callers, &stack.frames}) {
    for (auto place = part->rbegin(); place != part->rend(); ++place) absl::StrAppend(&text, CallerText(*place));
  }
  for (auto place = stack.callers.rbegin(); place != stack.callers.rend(); ++place) {
    if (place->is_user) absl::StrAppend(&text, CallerText(*place));
  }
  return text;
}

std::string ModuleText(const CodePlace& place) {
  if (place.module_class.empty() || place.module.empty()) return "";
  return absl::StrCat("\n  module: ", place.module, " (", place.module_class, ")");
}

// Where the line says less: more than one call stands in it.
std::string ExpressionText(const CodePlace& place) {
  if (place.expression.empty() || place.expression == place.source) return "";
  return absl::StrCat("\n  at: ", place.expression);
}

std::string WhatBroke(const GraphBreakReason& reason, const UserStack& stack, bool all_callers) {
  return absl::StrCat(reason.file, ":", reason.line, " in ", reason.function, ": ", reason.source,
                      CallersOf(reason, stack, all_callers), "\n  ", reason.Text(), ExpressionText(reason),
                      ModuleText(reason), "\n  hint: ", HintOf(reason));
}

}  // namespace

std::string CalledFrom(const UserStack& stack) { return NearestUser({&stack.callers, &stack.frames}); }

std::string WhyNot(const Entry& entry, const FrameView& view) {
  std::string text = entry.Explain(view);
  PyCodeObject* const forward = ShownCode(view);
  if (forward == view.code) return text;
  const int positional = forward->co_argcount;
  for (int i = 1; i < positional + forward->co_kwonlyargcount; ++i) {
    const std::string name = absl::StrCat("L['", Utf8(PyTuple_GET_ITEM(forward->co_localsplusnames, i)), "']");
    if (i < positional) text = absl::StrReplaceAll(text, {{absl::StrCat("L['args'][", i - 1, "]"), name}});
    text = absl::StrReplaceAll(text, {{absl::StrCat("L['kwargs'][", name.substr(2)), name}});
  }
  return text;
}

void LogGraphBreak(const GraphBreakReason& reason, const UserStack& stack) {
  if (!LogEnabled(LogArtifact::kGraphBreaks)) return;
  FF_LOG(kGraphBreaks) << "graph break at " << WhatBroke(reason, stack, LogDetailed(LogArtifact::kGraphBreaks));
}

void LogEntry(const CompiledEntry& entry, PyCodeObject* code) {
  if (LogEnabled(LogArtifact::kGuards)) {
    FF_LOG(kGuards) << entry.guards->PythonText(NameOf(code));
    for (const ExpectedOutput& e : entry.expects.outputs) {
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
  Ref id = Ref::Steal(PyUnicode_FromString(CurrentCompileId().Text().c_str()));
  Ref error = Ref::Steal(PyObject_CallFunctionObjArgs(Errors().unsupported, text.get(), why.get(), id.get(), nullptr));
  if (error) PyErr_SetObject(Errors().unsupported, error);
}

}  // namespace

void RaiseRecompileLimit(PyCodeObject* code, const std::string& name, const std::string& limit,
                         const std::string& failed_guard) {
  SetUnsupported(absl::StrCat("config.fail_on_recompile_limit_hit, but ", NamedPlace(code, name),
                              " would run as Python: ", AtTheLimit(limit, failed_guard)),
                 limit);
}

void RaiseUnsupported(std::string_view setting, const GraphBreakReason& reason, const UserStack& stack) {
  SetUnsupported(absl::StrCat(std::string(setting), ", but the graph breaks at ", WhatBroke(reason, stack, true)),
                 reason.Text());
}

void RaiseUnsupported(const EagerFallback& fallback) {
  SetUnsupported(absl::StrCat("fullgraph=True, but ", fallback.function, " (", fallback.file, ":", fallback.line,
                              ") cannot be compiled\n  ", fallback.Text(), "\n  hint: ", FallbackHint(fallback.kind)),
                 fallback.Text());
}

namespace {

void NoteCompileId(BorrowedRef error) {
  const Ref id = Ref::Steal(PyUnicode_FromString(CurrentCompileId().Text().c_str()));
  if (!id || PyObject_SetAttrString(error, "compile_id", id) != 0) PyErr_Clear();
}

}  // namespace

void ReportFailure(const absl::Status& status, const Ref& error, PyCodeObject* code, bool* raised) {
  const std::string message = absl::StrCat(Where(code), ": ", std::string(status.message()));
  if (error) {  // an FX backend raised: that is the user's error to see
    if (Py_TYPE(error.get()) == reinterpret_cast<PyTypeObject*>(Errors().backend_error.get())) NoteCompileId(error);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error);
    *raised = true;
    return;
  }
  if (TraceEnabled()) TraceBug(message);
  if (config().raise_on_bug) {
    SetError(Errors().internal_error, absl::StrCat(message, " (compilation [", CurrentCompileId().Text(), "])"));
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
    case Stance::kEagerThenCompile:
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
