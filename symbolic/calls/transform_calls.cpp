#include "symbolic/calls/transform_calls.h"

#include <c10/core/DispatchKeySet.h>
#include <torch/csrc/Device.h>

#include <algorithm>

#include "frame_eval/hook.h"
#include "frame_eval/import_module.h"
#include "symbolic/ambient/function_modes.h"
#include "symbolic/calls/native_calls.h"
#include "symbolic/journals/backward_phase.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/capture_position.h"
#include "symbolic/journals/fx_journal.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/rules/descriptors.h"
#include "symbolic/tracing/sized_products.h"

namespace framefuse {
namespace {

// What the closure of a function of torch's holds under a name.
BorrowedRef InClosure(PyFunctionObject* function, const char* name) {
  if (!IsTorchCode(reinterpret_cast<PyCodeObject*>(function->func_code))) return {};
  const Py_ssize_t i = IndexInClosure(function, name);
  return i < 0 ? BorrowedRef() : BorrowedRef(PyCell_GET(PyTuple_GET_ITEM(function->func_closure, i)));
}

// What torch.vmap returns: it calls what its closure holds under this name.
BorrowedRef FunctionUnderTransform(PyFunctionObject* function) { return InClosure(function, "func"); }

// Whether all that a transform runs of this callable is frames that are evaluated and torch's functions of tensors.
bool CanBeTransformed(BorrowedRef callable) {
  constexpr int kMaxDepth = 16;
  for (int depth = 0; callable && depth < kMaxDepth; ++depth) {
    if (IsDispatcherFunction(callable)) return true;
    if (PyMethod_Check(callable.get())) {
      return FindKnownFunction(PyMethod_GET_FUNCTION(callable.get())) == KnownFunction::kFunctionApply;
    }
    if (!PyFunction_Check(callable.get())) return false;
    auto* function = reinterpret_cast<PyFunctionObject*>(callable.get());
    if (!IsSkippedCode(reinterpret_cast<PyCodeObject*>(function->func_code)) || IsTorchLeafFunction(callable)) {
      return true;
    }
    callable = FunctionUnderTransform(function);
  }
  return false;
}

bool BeginsWithFunction(PyCodeObject* code) {
  const Ref names = Ref::Steal(PyCode_GetVarnames(code));
  if (!names) PyErr_Clear();
  return names && code->co_argcount > 0 &&
         PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names.get(), 0), "func") == 0;
}

bool IsPlainOrKeywords(BorrowedRef object) {
  if (!PyDict_CheckExact(object.get())) return IsPlainArgument(object);
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value) != 0;) {
    if (!IsPlainArgument(key) || !IsPlainArgument(value)) return false;
  }
  return true;
}

// Up to torch 2.12 the recorder's key stands above that of the transforms, and torch's Python code asks for the highest
// when it applies a Function.
bool HideRecorderFromFunctions() {
  if constexpr (c10::DispatchKey::Fake < c10::DispatchKey::FuncTorchDynamicLayerFrontMode) return true;
  const Ref module = ImportModule("torch._functorch.autograd_function");
  const Ref apply = module ? Ref::Steal(PyObject_GetAttrString(module, "custom_function_call")) : Ref();
  const Ref seen = apply ? Ref::Steal(PyObject_GetAttrString(apply, "non_fallthrough_keys")) : Ref();
  const Ref recorder =
      seen ? Ref::Steal(PyObject_CallMethod(
                 reinterpret_cast<PyObject*>(seen.type()), "from_raw_repr", "K",
                 static_cast<unsigned long long>(c10::DispatchKeySet(c10::DispatchKey::Fake).raw_repr())))
           : Ref();
  const Ref others = recorder ? Ref::Steal(PyNumber_Subtract(seen, recorder)) : Ref();
  return others && PyObject_SetAttrString(apply, "non_fallthrough_keys", others) == 0;
}

// Torch registers these at the first transform of a process. Then it must not be under one.
bool LoadDecompositions() {
  static bool loaded = false;
  if (loaded) return true;
  const tracing::Tracer::Suspended suspended;
  const HookScope hook(HookMode::kOff);
  const Ref module = ImportModule("torch._functorch.vmap");
  const Ref load = module ? Ref::Steal(PyObject_GetAttrString(module, "lazy_load_decompositions")) : Ref();
  const Ref done = load ? Ref::Steal(PyObject_CallNoArgs(load)) : Ref();
  loaded = done && HideRecorderFromFunctions();
  PyErr_Clear();
  return loaded;
}

// Of what is pushed. Null: torch has no such class.
PyTypeObject* TypeOfMode(BorrowedRef pushed) {
  if (!THPDevice_Check(pushed.get())) return pushed.type();
  static PyObject* const type = [] {
    const Ref module = ImportModule("torch.utils._device");
    PyObject* found = module ? PyObject_GetAttrString(module, "DeviceContext") : nullptr;
    PyErr_Clear();
    return found;
  }();
  return type != nullptr && PyType_Check(type) ? reinterpret_cast<PyTypeObject*>(type) : nullptr;
}

}  // namespace

TransformCalls::TransformCalls(Journals& journals, NativeCalls& natives)
    : modes_(journals.modes()),
      fx_(journals.fx()),
      breaks_(journals.breaks()),
      backward_(journals.backward()),
      reads_(journals.reads()),
      options_(journals.options()),
      natives_(natives) {}

bool IsTransformation(BorrowedRef function, absl::Span<const ValueView> args) {
  if (FindKnownFunction(function) != KnownFunction::kTransform) return false;
  auto* f = reinterpret_cast<PyFunctionObject*>(function.get());
  const BorrowedRef decorated = InClosure(f, "f");
  if (decorated && PyFunction_Check(decorated.get())) f = reinterpret_cast<PyFunctionObject*>(decorated.get());
  BorrowedRef under = FunctionUnderTransform(f);
  if (!under && !args.empty() && BeginsWithFunction(reinterpret_cast<PyCodeObject*>(f->func_code))) {
    under = args[0].object;
    args.remove_prefix(1);
  }
  if (under && !CanBeTransformed(under)) return false;
  return std::all_of(args.begin(), args.end(), [](const ValueView& v) { return IsPlainOrKeywords(v.object); });
}

Value TransformCalls::CallTransformation(Activation& act, BorrowedRef function, absl::Span<const ValueView> args,
                                         BorrowedRef kwnames) {
  if (modes_.open() == 0 && !LoadDecompositions()) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(function));
  }
  const FxJournal::AsOperators as_operators(fx_);
  const tracing::SizedProductsScope seen(/*recording=*/false);  // torch's code asks which key is the first
  return natives_.CallTorch(act, function, args, kwnames);
}

// `_push_on_torch_function_stack` and `_pop_torch_function_stack`, and what a device does as a context: C code of
// torch's pushes and pops a mode of torch's own for it.
Value TransformCalls::CallOfFunctionModes(SpecialCall which, ValueView callable, absl::Span<const ValueView> args,
                                          BorrowedRef kwnames) {
  const bool push = which == SpecialCall::kPushFunctionMode;
  if (options_.breaks_at_modes || backward_.running() || (push ? args.size() != 1 : modes_.open() == 0)) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
  }
  // What a mode's class defines, torch's C code looks up.
  static PyObject* const handler = PyUnicode_InternFromString("__torch_function__");
  if (push) reads_.Consume(args[0]);
  PyTypeObject* mode = push ? TypeOfMode(args[0].object) : nullptr;
  if (push && (mode == nullptr || !IsPythonFunction(reads_.LookupInType(mode, handler)))) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, "a torch function mode whose handler is no function");
  }
  Value result = natives_.CallNative(callable.object, args, kwnames);
  if (!result) return result;
  if (push) {
    modes_.NotePush();
    fx_.EnterAsOperators();
  } else {
    modes_.NotePop();
    fx_.LeaveAsOperators();
  }
  return result;
}

// The two ends of a block of torch.autograd.forward_ad.dual_level: torch's own formulas see the tangents of the fakes.
Value TransformCalls::CallOfDualLevels(SpecialCall which, ValueView callable, absl::Span<const ValueView> args,
                                       BorrowedRef kwnames) {
  const bool enter = which == SpecialCall::kEnterDualLevel;
  const bool known = enter ? args.empty() : modes_.has_dual_level();
  if (!known || options_.breaks_at_modes || backward_.running() || (modes_.open() == 0 && !LoadDecompositions())) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
  }
  for (const ValueView& v : args) reads_.Consume(v);
  Value result = natives_.CallNative(callable.object, args, kwnames);
  if (!result) return result;
  if (enter) {
    modes_.NoteDualLevel(PyLong_AsUnsignedLongLong(result.object));
    fx_.EnterAsOperators();
  } else {
    modes_.NoteDualLevelLeft();
    fx_.LeaveAsOperators();
  }
  return result;
}

// What stands for the two ends of a block of torch.inference_mode (framefuse/_compat.py).
Value TransformCalls::CallOfInferenceMode(absl::Span<const ValueView> args) {
  const bool enter = !args.empty();
  const bool known = enter ? args.size() == 1 && PyBool_Check(args[0].object.get()) : modes_.in_inference_mode();
  const bool from_outside = c10::InferenceMode::is_enabled() && !modes_.in_inference_mode();
  if (!known || from_outside || options_.breaks_at_modes || backward_.running() || fx_.keep_values()) {
    return breaks_.Break(GraphBreakKind::kGlobalTorchState, "inference mode");
  }
  if (enter) {
    reads_.Consume(args[0]);
    modes_.EnterInferenceMode(args[0].object.get() == Py_True);
  } else {
    modes_.LeaveInferenceMode();
  }
  return Value{Ref::Create(Py_None), kNoSource};
}

}  // namespace framefuse
