#include "symbolic/calls/module_calls.h"

#include "symbolic/calls/call_evaluator.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/journals/backward_phase.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/capture_position.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/object_contents.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/protocols/attribute_reads.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/rules/call_rules.h"
#include "symbolic/rules/descriptors.h"

namespace framefuse {
namespace {

struct Names {
  static Ref Of(const char* text) { return Ref::Steal(PyUnicode_InternFromString(text)); }
  Ref getattribute = Of("__getattribute__"), compiled_call_impl = Of("_compiled_call_impl"),
      call_impl = Of("_call_impl"), forward = Of("forward"), torch = Of("torch"), c = Of("_C"),
      get_tracing_state = Of("_get_tracing_state");
  Ref hooks[4] = {Of("_backward_hooks"), Of("_backward_pre_hooks"), Of("_forward_hooks"), Of("_forward_pre_hooks")};
  Ref hooks_for_all[4] = {Of("_global_backward_pre_hooks"), Of("_global_backward_hooks"), Of("_global_forward_hooks"),
                          Of("_global_forward_pre_hooks")};
};

const Names& N() {
  static const auto* names = new Names();
  return *names;
}

}  // namespace

ModuleCalls::ModuleCalls(Journals& journals, Protocols& meaning, AttributeReads& attributes, CallEvaluator& calls)
    : breaks_(journals.breaks()),
      backward_(journals.backward()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      contents_(journals.contents()),
      options_(journals.options()),
      meaning_(meaning),
      attributes_(attributes),
      calls_(calls) {}

// What the class has under a name that the instance has nothing of its own under; null: absent, the instance has, or an
// error is set.
BorrowedRef ModuleCalls::OnlyInType(Tracked& instance, BorrowedRef name) {
  const BorrowedRef found = reads_.LookupInType(instance.original.type(), name);
  if (!found || writes_.FindClassWrite(instance.original.type(), name) != nullptr) return BorrowedRef();
  return contents_.OwnAttribute(instance, name) ? BorrowedRef() : found;
}

bool ModuleCalls::HasNoHooksForAll(Activation& act, BorrowedRef globals) {
  if (!writes_.globals().empty()) return false;
  if (hooks_globals_ == globals.get()) {
    for (const Tracked* dict : hooks_for_all_) {
      if (dict->mutated()) return false;
    }
    return true;
  }
  const SourceId source = reads_.ConstantSource(globals);
  const auto global = [&](BorrowedRef name) {
    PyObject* found = PyDict_GetItemWithError(globals, name);
    return found != nullptr ? objects_.Adopt(found, reads_.sources().Item(source, name)) : Value();
  };
  const Value torch = global(N().torch);
  if (!torch || !PyModule_CheckExact(torch.object.get())) return false;
  const Value c = attributes_.ModuleGetAttr(act, torch, N().c);
  if (!c || !PyModule_Check(c.object.get())) return false;
  const Value get_tracing_state = attributes_.ModuleGetAttr(act, c, N().get_tracing_state);
  if (!get_tracing_state) return false;
  const Value tracing = calls_.CallWith(act, get_tracing_state, {}, nullptr, Completion::kCallback);
  if (!tracing || tracing.object.get() != Py_None) return false;
  std::vector<const Tracked*> dicts;
  for (const Ref& name : N().hooks_for_all) {
    const Value dict = global(name);
    Tracked* t = dict ? objects_.Find(dict.object) : nullptr;
    if (t == nullptr || t->kind != TrackedKind::kDict || t->mutated() || contents_.Length(*t) != 0) return false;
    dicts.push_back(t);
  }
  hooks_for_all_ = std::move(dicts);
  hooks_globals_ = globals;
  return true;
}

bool ModuleCalls::HasNoHooks(Activation& act, ValueView module, BorrowedRef call_impl) {
  for (const Ref& name : N().hooks) {
    if (meaning_.TruthOfAttr(act, module, name) != std::optional<bool>(false)) return false;
  }
  return HasNoHooksForAll(act, PyFunction_GET_GLOBALS(call_impl.get()));
}

// Nothing: the functions themselves must say.
std::optional<Value> ModuleCalls::CallModule(Activation& act, absl::Span<const ValueView> args, BorrowedRef kwnames,
                                             Completion completion) {
  if (options_.all_frames || backward_.running() || PositionalCount(args, kwnames) == 0) return std::nullopt;
  Tracked* module = objects_.Find(args[0].object);
  if (module == nullptr || module->kind != TrackedKind::kInstance) return std::nullopt;
  PyTypeObject* type = module->original.type();
  if (!IsNativeDefault(reads_.LookupInType(type, N().getattribute), N().getattribute)) return std::nullopt;
  const auto unless_failed = [] {
    return PyErr_Occurred() != nullptr ? std::optional<Value>(Value()) : std::optional<Value>();
  };
  if (OnlyInType(*module, N().compiled_call_impl).get() != Py_None) return unless_failed();
  const BorrowedRef call_impl = OnlyInType(*module, N().call_impl);
  if (FindKnownFunction(call_impl) != KnownFunction::kModuleCallImpl) return unless_failed();
  if (!HasNoHooks(act, args[0], call_impl)) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError) != 0) PyErr_Clear();
    return unless_failed();
  }
  const BorrowedRef forward = OnlyInType(*module, N().forward);
  if (!IsPythonFunction(forward)) return unless_failed();
  const SourceId made = reads_.ConstantSource(reinterpret_cast<PyObject*>(type));
  const Value function = objects_.Adopt(forward, reads_.sources().Intern(SourceKind::kTypeAttr, made, 0, N().forward));
  if (!function) return Value();
  breaks_.BeginWithoutFrames();
  Value result = calls_.CallFunction(act, function, args, kwnames, completion);
  breaks_.EndWithoutFrames();
  return result ? std::move(result) : breaks_.NeedFrames();
}

}  // namespace framefuse
