#include "symbolic/dispatch/capture_trace.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/trace.h"
#include "guards/text.h"
#include "symbolic/attempt/call_trace.h"
#include "symbolic/messages/break_hints.h"
#include "symbolic/messages/code_text.h"

namespace framefuse {
namespace {

std::string PlaceJson(const CodePlace& place) {
  JsonObject json;
  json.Text("file", place.file).Int("line", place.line).Text("function", place.function);
  json.Text("source", place.source).Bool("user", place.is_user);
  if (!place.expression.empty()) json.Text("expression", place.expression);
  if (!place.module_class.empty()) json.Text("module", place.module).Text("module_class", place.module_class);
  return json.Done();
}

void AddPlaces(const std::vector<CodePlace>& places, std::vector<std::string>* json) {
  for (const CodePlace& place : places) json->push_back(PlaceJson(place));
}

std::string PlacesJson(const std::vector<CodePlace>& places) {
  std::vector<std::string> json;
  AddPlaces(places, &json);
  return JsonList(json);
}

std::string StackJson(const UserStack& stack) {
  std::vector<std::string> json;
  AddPlaces(stack.callers, &json);
  AddPlaces(stack.frames, &json);
  return JsonList(json);
}

// `GUARD failed: VALUES (PLACE)`
std::string FailedJson(const std::string& explanation) {
  constexpr std::string_view kFailed = " failed: ";
  JsonObject json;
  json.Text("text", explanation).Text("hint", HintOfRecompile(explanation));
  const std::size_t at = explanation.find(kFailed);
  if (at == std::string::npos) return json.Done();
  std::string found = explanation.substr(at + kFailed.size());
  const std::size_t place = found.rfind(" (");
  if (place != std::string::npos) {
    json.Text("where", std::string_view(found).substr(place + 2, found.size() - place - 3));
    found.resize(place);
  }
  json.Text("guard", std::string_view(explanation).substr(0, at)).Text("found", found);
  return json.Done();
}

std::string TimesJson(const AttemptResult& result) {
  JsonObject json;
  json.Number("capture", result.capture_seconds).Number("backend", result.backend_seconds);
  if (result.entry == nullptr || result.entry->executable == nullptr) return json.Done();
  JsonObject phases;
  for (const PhaseTime& phase : result.entry->executable->CompileTimes()) {
    phases.Number(phase.name, phase.milliseconds * 1e-3);
  }
  return json.Json("phases", phases.Done()).Done();
}

const char* OutcomeOf(const AttemptResult& result) {
  if (result.entry != nullptr) return result.entry->executable != nullptr ? "graph" : "no graph";
  if (!result.error.ok()) return "error";
  return result.raised ? "raised" : "python";
}

}  // namespace

TracedCompile BeginTracing(frame_ops::Frame* frame, PyCodeObject* shown, std::string name,
                           std::vector<std::string> failed) {
  PyCodeObject* code = frame_ops::Code(frame);
  TracedCompile traced;
  traced.code = shown;
  traced.resumes = !frame_ops::IsStarting(frame);
  const bool inside = traced.resumes && shown == code;  // and not in torch's call of a module
  traced.line = inside ? LineOf(code, frame_ops::NextInstruction(frame)) : shown->co_firstlineno;
  traced.name = std::move(name);
  traced.failed = std::move(failed);
  traced.stack = CurrentStack();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  traced.begun = std::chrono::duration<double>(now).count();
  return traced;
}

void TraceCompile(const TracedCompile& c, const AttemptResult& result) {
  TraceSource(FileNameOf(c.code));
  JsonObject json;
  json.Text("function", QualifiedNameOf(c.code)).Text("file", FileNameOf(c.code));
  json.Int("first_line", c.code->co_firstlineno).Int("line", c.line).Bool("resumes", c.resumes);
  json.Text("name", c.name).Number("begun", c.begun).Int("restarts", std::max(result.attempts - 1, 0));
  json.Text("outcome", OutcomeOf(result)).Json("times", TimesJson(result));
  std::vector<std::string> failed;
  for (const std::string& text : c.failed) failed.push_back(FailedJson(text));
  json.Json("recompiles", JsonList(failed));
  json.Json("stack", StackJson(c.stack));
  if (result.broke_at) json.Json("ends_at", PlaceJson(*result.broke_at));
  if (!result.error.ok()) json.Text("error", std::string(result.error.message()));
  if (result.entry != nullptr) {
    json.Int("nodes", result.nodes).Text("guards", result.entry->guards->PythonText("guards"));
    json.Text("graph", result.entry->graph_text).Json("calls", result.entry->trace_calls);
  }
  WriteTrace("compile", json);
}

void TraceBreak(const GraphBreakReason& reason, const UserStack& stack) {
  TraceSource(reason.file);
  for (const CodePlace& place : reason.callers) TraceSource(place.file);
  JsonObject json;
  json.Text("kind", GraphBreakName(reason.kind)).Text("reason", reason.Text()).Text("hint", HintOf(reason));
  json.Json("place", PlaceJson(reason)).Json("callers", PlacesJson(stack.callers));
  std::vector<std::string> frames;
  AddPlaces(stack.frames, &frames);
  AddPlaces(reason.callers, &frames);
  frames.push_back(PlaceJson(reason));
  WriteTrace("graph_break", json.Json("stack", JsonList(frames)));
}

void TraceFallback(const EagerFallback& f) {
  const std::string key = absl::StrCat("fallback ", f.file, ":", f.line, " ", f.function, " ", f.Text());
  if (!TraceWants(key)) return;
  JsonObject json;
  json.Text("kind", FallbackName(f.kind)).Text("reason", f.Text()).Text("hint", FallbackHint(f.kind));
  json.Text("function", f.function).Text("file", f.file).Int("line", f.line);
  WriteTraceOnce(key, "fallback", json.Json("stack", StackJson(CurrentStack())));
}

void TraceBug(const std::string& message) {
  JsonObject json;
  json.Text("text", message).Json("stack", StackJson(CurrentStack()));
  WriteTraceOnce(absl::StrCat("bug ", message), "bug", json);
}

}  // namespace framefuse
