#include "symbolic/dispatch/api.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/config.h"
#include "common/logging.h"
#include "frame_eval/compiled_function.h"
#include "frame_eval/import_module.h"
#include "guards/leaf/saved_tensor_hooks.h"
#include "symbolic/dispatch/frame_runner.h"
#include "symbolic/dispatch/reporting.h"
#include "symbolic/frames/user_stack.h"
#include "symbolic/messages/break_hints.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/call_rules.h"
#include "symbolic/rules/tensor_types.h"
#include "symbolic/tracing/lasting_device_guard.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

AttemptSettings SettingsOf(const CompileOptions& options) {
  AttemptSettings settings;
  settings.fullgraph = options.fullgraph;
  settings.tell_libraries = options.tell_libraries;
  settings.backend = options.backend;
  settings.mode = options.mode;
  settings.fx_backend = options.fx_backend;
  settings.recompile_limit = options.recompile_limit;
  settings.name = options.name;
  settings.sizes = std::make_shared<DynamicSizes>(options.dynamic);
  return settings;
}

std::string OwnerKey(const CompileOptions& options) {
  std::string key =
      absl::StrCat(options.fullgraph ? "fullgraph " : "", options.tell_libraries ? "tells libraries " : "",
                   options.backend, " ", options.mode, " dynamic ", static_cast<int>(options.dynamic));
  for (const auto& [name, value] : options.options) absl::StrAppend(&key, " ", name, "=", value);
  if (options.fx_backend_identity) {
    absl::StrAppend(&key, " fx ", reinterpret_cast<std::uintptr_t>(options.fx_backend_identity.get()));
  }
  return key;
}

// The Python function behind a callable, if its frame is the first that a call runs.
PyFunctionObject* FunctionOf(PyObject* callable) {
  while (PyMethod_Check(callable) || Py_TYPE(callable) == PartialType()) {
    // A partial owns its function.
    callable = PyMethod_Check(callable) ? PyMethod_GET_FUNCTION(callable)
                                        : Ref::Steal(PyObject_GetAttrString(callable, "func")).get();
  }
  if (PyFunction_Check(callable)) return reinterpret_cast<PyFunctionObject*>(callable);
  static PyObject* const name = PyUnicode_InternFromString("__call__");
  PyObject* call = frame_ops::TypeLookup(Py_TYPE(callable), name);
  return call != nullptr && PyFunction_Check(call) ? reinterpret_cast<PyFunctionObject*>(call) : nullptr;
}

PyCodeObject* CodeOf(const PyFunctionObject* function) { return reinterpret_cast<PyCodeObject*>(function->func_code); }

Ref& Suspended() {
  static auto* function = new Ref();
  return *function;
}

class CompiledTarget final : public CallTarget {
 public:
  CompiledTarget(BorrowedRef callable, const CompileOptions& options)
      : callable_(Ref::Create(callable)),
        runner_(Owner::Intern(OwnerKey(options), options.fx_backend_identity), SettingsOf(options)) {}

  Ref Call(BorrowedRef self, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) override {
    const bool hooked = HasSavedTensorHooks();
    if (hooked ? RunsAsPython() : IsOff()) return Ref::Steal(PyObject_Vectorcall(callable_, args, nargsf, kwnames));
    if (!hooked && PyFunction_Check(callable_.get())) {
      const BorrowedRefOf<PyFunctionObject> function(reinterpret_cast<PyFunctionObject*>(callable_.get()));
      BoundArguments bound;
      if (BindSimple(function, args, nargsf, kwnames, &bound)) {
        Hit found = runner_.TryWithoutFrame(bound.View(function));
        if (found.hit) {
          DeliverLogs();
          return std::move(found.result);
        }
      }
    }
    Ref result = Run(callable_, args, nargsf, kwnames);
    const PyFunctionObject* function = result && MakesSuspended(result) ? FunctionOf(callable_) : nullptr;
    const bool own = function != nullptr && frame_ops::IsGeneratorCode(CodeOf(function));
    return own ? Ref::Steal(PyObject_CallFunctionObjArgs(Suspended(), self.get(), result.get(), nullptr))
               : std::move(result);
  }
  Ref Resume(BorrowedRef callable, PyObject* const* args, std::size_t count) override {
    return IsOff() ? CallTarget::Resume(callable, args, count) : Run(callable, args, count, nullptr);
  }
  int Traverse(visitproc visit, void* arg) override {
    Py_VISIT(callable_.get());
    return 0;
  }
  void Clear() override { callable_.reset(); }

 private:
  static bool IsOff() {
    return CurrentHookMode() == HookMode::kDisabled || !config().capture_on || GetStance() == Stance::kForceEager;
  }
  // A checkpoint's second run is as its first was, wherever the backward pass is called.
  static bool RunsAsPython() {
    const SavedTensorHooksOfCall hooks;
    std::optional<CheckpointScript> script = CheckpointScript::Now();
    return script ? script->RunsAsPython(IsOff()) : IsOff();
  }
  static bool MakesSuspended(BorrowedRef result) {
    return Suspended() && (PyGen_CheckExact(result.get()) || PyCoro_CheckExact(result.get()));
  }
  Ref Run(BorrowedRef callable, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) {
    const CompiledCall call;
    const SavedTensorHooksOfCall hooks;
    const OwnLimitScope limit;
    const HookScope scope(HookMode::kRun, &runner_);
    const PyFunctionObject* function = FunctionOf(callable_);
    if (function != nullptr) runner_.ExpectRoot(CodeOf(function), callable_);
    Ref result = Ref::Steal(PyObject_Vectorcall(callable, args, nargsf, kwnames));
    DeliverLogs();
    return result;
  }

  Ref callable_;
  FrameRunner runner_;
};

class DisabledTarget final : public CallTarget {
 public:
  DisabledTarget(BorrowedRef callable, bool recursive) : callable_(Ref::Create(callable)), recursive_(recursive) {}
  Ref Call(BorrowedRef, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) override {
    const auto call = [&] { return Ref::Steal(PyObject_Vectorcall(callable_, args, nargsf, kwnames)); };
    if (recursive_) {
      const HookScope disabled(HookMode::kDisabled);
      return call();
    }
    const SkipNextFrame skip(callable_);
    return call();
  }
  bool is_captured() const override { return false; }
  int Traverse(visitproc visit, void* arg) override {
    Py_VISIT(callable_.get());
    return 0;
  }
  void Clear() override { callable_.reset(); }

 private:
  Ref callable_;
  bool recursive_;
};

}  // namespace

namespace {

// torch.ops' own objects, so that FX graphs can name them.
void LoadCondOperators() {
  Ref packet = ImportModule("torch");
  for (const char* name : {"ops", "framefuse", "cond"}) {
    packet = packet ? Ref::Steal(PyObject_GetAttrString(packet, name)) : Ref();
  }
  Ref plain = packet ? Ref::Steal(PyObject_GetAttrString(packet, "default")) : Ref();
  Ref random = packet ? Ref::Steal(PyObject_GetAttrString(packet, "random")) : Ref();
  FF_CHECK(plain && random) << "the operator framefuse::cond is not registered";
  tracing::SetCondOperators(std::move(plain), std::move(random));
}

}  // namespace

absl::Status Initialize(PythonErrors errors) {
  InstallErrors(std::move(errors));
  RegisterTorchLeafTypes();
  RegisterNumpyLeafTypes();
  LoadBuiltinTypes();
  LoadCallRules();
  LoadCondOperators();
  return absl::OkStatus();
}

bool CompileOptions::Equal(const CompileOptions& other) const { return OwnerKey(*this) == OwnerKey(other); }

Ref MakeCompiledFunction(BorrowedRef callable, const CompileOptions& options, BorrowedRef remake) {
  return NewCompiledFunction(callable, std::make_unique<CompiledTarget>(callable, options), remake);
}

void SetSuspended(Ref function) { Suspended() = std::move(function); }

Ref ResumeCompiled(BorrowedRef function, BorrowedRef callable, absl::Span<PyObject* const> args) {
  CallTarget* target = TargetOf(function);
  if (target == nullptr) return Ref::Steal(PyObject_Vectorcall(callable, args.data(), args.size(), nullptr));
  return target->Resume(callable, args.data(), args.size());
}

bool IsCompiledFunction(BorrowedRef object) {
  const CallTarget* target = IsCompiledFunctionObject(object) ? TargetOf(object) : nullptr;
  return target != nullptr && target->is_captured();
}

Ref MakeDisabledFunction(BorrowedRef callable, bool recursive, BorrowedRef remake) {
  return NewCompiledFunction(callable, std::make_unique<DisabledTarget>(callable, recursive), remake);
}

void RegisterSpecialFunction(BorrowedRef callable, SpecialFunction meaning) {
  static constexpr SpecialCall kCalls[] = {
      SpecialCall::kIsCompiling,      SpecialCall::kGraphBreak, SpecialCall::kCond, SpecialCall::kInferenceMode,
      SpecialCall::kDeepCopyOfTensor, SpecialCall::kCheckpoint, SpecialCall::kLog};
  CallRule rule;
  rule.kind = CallRule::Kind::kSpecial;
  rule.special = kCalls[static_cast<std::size_t>(meaning)];
  AddCallRule(callable, rule);
}

void RegisterDeferred(BorrowedRef callable) {
  CallRule rule;
  rule.kind = CallRule::Kind::kDeferred;
  AddCallRule(callable, rule);
}

void RegisterMark(BorrowedRef callable) {
  CallRule rule;
  rule.kind = CallRule::Kind::kBreaks;
  rule.break_kind = GraphBreakKind::kTensorAttribute;
  AddCallRule(callable, rule);
}

void RegisterSubstitute(BorrowedRef callable, BorrowedRef replacement, bool of_torch_only) {
  AddSubstitute(callable, replacement, of_torch_only);
}

void AllowInGraph(BorrowedRef callable) {
  CallRule rule;
  rule.kind = CallRule::Kind::kSpecial;
  rule.special = SpecialCall::kAllowInGraph;
  AddCallRule(callable, rule);
}

void Reset() {
  CodeCache::Reset();
  ForgetReportedFallbacks();
}

Statistics GetStatistics() {
  Statistics s = MutableStatistics();
  s.live_fakes = tracing::Tracer::LiveFakes();
  s.eager_fallbacks = FallbackTotal();
  s.fallbacks_by_name = FallbackCounts();
  return s;
}

namespace {

class Reporter final : public RunObserver {
 public:
  explicit Reporter(ExplainReport* report) : report_(report) {}
  void OnCaptured(const CompiledEntry& entry, const AttemptResult& result) override {
    capture_ += result.capture_seconds;
    backend_ += result.backend_seconds;
    if (entry.executable != nullptr) {
      for (const PhaseTime& phase : entry.executable->CompileTimes()) Add(phase);
    }
    if (entry.executable == nullptr) return;
    report_->graphs.push_back(ExplainGraph{entry.operations, entry.graph_text, entry.id.Text()});
    report_->guards.push_back(entry.guards->PythonText("guards"));
  }
  void OnBreak(const GraphBreakReason& r, const UserStack& stack) override {
    ExplainBreak found;
    found.reason = r.Text();
    found.hint = HintOf(r);
    found.id = CurrentCompileId().Text();
    found.expression = r.expression;
    if (!r.module_class.empty()) {
      found.module = absl::StrCat(r.module, r.module.empty() ? "" : " ", "(", r.module_class, ")");
    }
    for (const auto* places : {&stack.frames, &r.callers}) {
      for (const CodePlace& p : *places) found.user_stack.push_back({p.file, p.line, p.function, p.source});
    }
    found.user_stack.push_back({r.file, r.line, r.function, r.source});
    report_->breaks.push_back(std::move(found));
  }
  void OnFallback(const EagerFallback& f) override {
    if (SeverityOf(f.kind) == FallbackSeverity::kCounted) return;
    report_->fallbacks.push_back(
        ExplainFallback{FallbackName(f.kind), f.Text(), FallbackHint(f.kind), {f.file, f.line, f.function, ""}});
  }
  void Finish() {
    report_->compile_times.emplace_back("capture", capture_);
    report_->compile_times.emplace_back("backend", backend_);
    std::move(phases_.begin(), phases_.end(), std::back_inserter(report_->compile_times));
  }

 private:
  void Add(const PhaseTime& phase) {
    const std::string name = "backend: " + phase.name;
    const auto same = std::find_if(phases_.begin(), phases_.end(), [&](const auto& p) { return p.first == name; });
    const double seconds = phase.milliseconds * 1e-3;
    same == phases_.end() ? (void)phases_.emplace_back(name, seconds) : (void)(same->second += seconds);
  }

  ExplainReport* report_;
  double capture_ = 0;
  double backend_ = 0;
  std::vector<std::pair<std::string, double>> phases_;  // of backend_
};

}  // namespace

namespace {

// Calls what `callable` compiles, or itself, with `runner` as the hook.
Ref CallThrough(FrameRunner& runner, PyObject* callable, BorrowedRef args, BorrowedRef kwargs) {
  PyObject* target = IsCompiledFunctionObject(callable) ? WrappedCallable(callable).get() : callable;
  Ref result;
  {
    const CompiledCall call;
    const SavedTensorHooksOfCall hooks;
    const HookScope scope(HookMode::kRun, &runner);
    PyFunctionObject* function = FunctionOf(target);
    if (function != nullptr) {
      runner.ExpectRoot(reinterpret_cast<PyCodeObject*>(function->func_code), target);
    }
    result = Ref::Steal(PyObject_Call(target, args, kwargs));
  }
  DeliverLogs();
  return result;
}

class GraphCounter final : public RunObserver {
 public:
  void OnCaptured(const CompiledEntry& entry, const AttemptResult&) override { graphs += entry.executable != nullptr; }
  void OnBreak(const GraphBreakReason&, const UserStack&) override {}
  void OnFallback(const EagerFallback&) override {}
  int graphs = 0;
};

}  // namespace

bool Explain(BorrowedRef callable, const CompileOptions& options, BorrowedRef args, BorrowedRef kwargs,
             ExplainReport* report) {
  Reporter reporter(report);
  FrameRunner runner(Owner::MakePrivate(OwnerKey(options), options.fx_backend_identity), SettingsOf(options));
  runner.set_observer(&reporter);
  const Ref result = CallThrough(runner, callable, args, kwargs);
  reporter.Finish();
  return static_cast<bool>(result);
}

Ref Export(BorrowedRef callable, const CompileOptions& options, BorrowedRef args, BorrowedRef kwargs,
           ExportedGraph* exported, int* graphs) {
  AttemptSettings settings = SettingsOf(options);
  settings.exported = exported;
  GraphCounter counter;
  FrameRunner runner(Owner::MakePrivate(OwnerKey(options), options.fx_backend_identity), std::move(settings));
  runner.set_observer(&counter);
  Ref result = CallThrough(runner, callable, args, kwargs);
  *graphs = counter.graphs;
  return result;
}

void EnsureLastingDeviceGuard() { tracing::EnsureLastingDeviceGuard(); }

}  // namespace framefuse
