#include "symbolic/calls/object_calls.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/Size.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "frame_eval/versions/private_api.h"
#include "symbolic/calls/cached_calls.h"
#include "symbolic/calls/call_evaluator.h"
#include "symbolic/calls/native_calls.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_contents.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/weak_targets.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/rules/scripted_functions.h"
#include "symbolic/rules/self_holding.h"
#include "symbolic/rules/tensor_types.h"

namespace framefuse {

namespace {
// What the module makes encoders and scanners of.
bool IsJsonType(PyTypeObject* type, const char* maker) {
  PyObject* const module = PyDict_GetItemString(PyImport_GetModuleDict(), "_json");
  const Ref found = module != nullptr ? Ref::Steal(PyObject_GetAttrString(module, maker)) : Ref();
  if (!found) PyErr_Clear();
  return found.get() == reinterpret_cast<PyObject*>(type);
}

// Nothing that the encoder would ask the program about.
bool IsPlainData(BorrowedRef object) {
  PyObject* o = object;
  if (PyList_CheckExact(o) || PyTuple_CheckExact(o)) {
    bool plain = true;
    for (Py_ssize_t i = 0; plain && i < PySequence_Fast_GET_SIZE(o); ++i) {
      plain = IsPlainData(PySequence_Fast_GET_ITEM(o, i));
    }
    return plain;
  }
  if (!PyDict_CheckExact(o)) return IsTextOrNumber(object) || o == Py_None;
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(o, &position, &key, &value) != 0) {
    if (!PyUnicode_CheckExact(key) || !IsPlainData(value)) return false;
  }
  return true;
}

// Of a scanner: nothing of the program's is called for what it reads.
bool MakesPlainData(BorrowedRef scanner) {
  const auto has = [&](const char* name, PyObject* value) {
    const Ref found = Ref::Steal(PyObject_GetAttrString(scanner, name));
    if (!found) PyErr_Clear();
    return found.get() == value;
  };
  return has("object_hook", Py_None) && has("object_pairs_hook", Py_None) &&
         has("parse_float", reinterpret_cast<PyObject*>(&PyFloat_Type)) &&
         has("parse_int", reinterpret_cast<PyObject*>(&PyLong_Type));
}
}  // namespace

ObjectCalls::ObjectCalls(Journals& journals, NativeProtocols& native, Protocols& meaning, CallEvaluator& calls,
                         NativeCalls& natives, CachedCalls& cached)
    : frames_(journals.frames()),
      breaks_(journals.breaks()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      contents_(journals.contents()),
      arguments_(journals.arguments()),
      native_(native),
      meaning_(meaning),
      calls_(calls),
      natives_(natives),
      cached_(cached) {}

Value ObjectCalls::CallInstance(Activation& act, ValueView callable, absl::Span<const ValueView> args,
                                BorrowedRef kwnames, Completion completion) {
  PyTypeObject* type = callable.object.type();
  Tracked* t = objects_.Find(callable.object);
  if (type == LruCacheType() && t != nullptr) return cached_.CallCached(act, callable, args, kwnames);
  if (type == LruCacheType()) {  // made here, as all that it keeps
    return arguments_.PrepareAll(args, true) ? natives_.CallNative(callable.object, args, kwnames) : Value();
  }
  if (type == &PyStaticMethod_Type) {
    const Ref wrapped = Ref::Steal(PyObject_GetAttrString(callable.object, "__wrapped__"));
    if (!wrapped) return Value();
    return calls_.CallWith(act, objects_.Adopt(wrapped, reads_.ConstantSource(wrapped)), args, kwnames, completion);
  }
  if (type == PartialType()) return CallPartial(act, callable, args, kwnames);
  if (IsTorchOperator(type)) {
    if (t != nullptr) reads_.AddGuard(t->source, GuardKind::kIdentity, t->original);
    return natives_.CallTorch(act, callable.object, args, kwnames);
  }
  if (IsScriptFunction(type)) return CallScripted(act, callable, args, kwnames);
  static PyObject* const call_name = PyUnicode_InternFromString("__call__");
  const BorrowedRef call = reads_.LookupInType(type, call_name);
  WeakTargets targets(frames_, breaks_, reads_, writes_, objects_);
  if (IsAskedByCall(callable.object, call) && args.empty() && !kwnames) return targets.Of(callable);
  if (targets.IsProxy(callable)) {
    const Value target = targets.BehindProxy(callable);
    return target ? calls_.CallWith(act, target, args, kwnames, completion) : Value();
  }
  if (call && PyFunction_Check(call.get())) {
    const Value function = objects_.Adopt(call, reads_.TypeAttr(type, call_name));
    return calls_.CallFunction(act, function, WithFirst(callable, args), kwnames, completion);
  }
  if (type->tp_call == nullptr) return natives_.CallNative(callable.object, args, kwnames);  // raises the TypeError
  if (type == ItemGetterType()) {
    return arguments_.PrepareAll(args, false) ? natives_.CallNative(callable.object, args, kwnames) : Value();
  }
  if (type == KeyWrapperType() && t == nullptr) {  // keeps its argument
    for (const ValueView& v : args) {
      if (!arguments_.PrepareOuter(v)) return Value();
    }
    return natives_.CallNative(callable.object, args, kwnames);
  }
  if (type == MethodCallerType()) return CallMethodCaller(act, callable, args, kwnames);
  if (type == AttrGetterType()) return CallAttrGetter(act, callable, args, kwnames);
  if (t == nullptr && IsJsonType(type, "make_encoder")) {
    if (!arguments_.PrepareAll(args, false)) return Value();
    if (!args.empty() && !HoldsItself(args[0].object) && IsPlainData(args[0].object)) {
      return natives_.CallNative(callable.object, args, kwnames);
    }
  }
  if (t != nullptr && IsJsonType(type, "make_scanner") && MakesPlainData(callable.object)) {
    reads_.AddGuard(t->source, GuardKind::kIdentity, t->original);
    return arguments_.PrepareAll(args, false) ? natives_.CallNative(callable.object, args, kwnames) : Value();
  }
  return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
}

Value ObjectCalls::CallScripted(Activation& act, ValueView callable, absl::Span<const ValueView> args,
                                BorrowedRef kwnames) {
  const Tracked* t = objects_.Find(callable.object);
  const BorrowedRef function = t != nullptr ? BorrowedRef(t->original) : callable.object;
  // Its pass for autocast chooses other types than autocast does.
  if (at::autocast::is_autocast_enabled(at::kCPU) || at::autocast::is_autocast_enabled(at::kCUDA)) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, "a scripted function under autocast");
  }
  if (!OnlyComputes(function)) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, "a scripted function that does more than compute");
  }
  if (t != nullptr) reads_.AddGuard(t->source, GuardKind::kIdentity, t->original);
  const Ref copy = CopyAsWritten(function);
  ScriptedCall call{{args.begin(), args.end()}, Ref::Create(kwnames), {}};
  if (!copy || !call.AddDefaults(function)) {
    PyErr_Clear();
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, "a scripted function that torch does not copy");
  }
  const torch::jit::GraphOptimizerEnabledGuard unoptimized(false);
  return natives_.CallTorch(act, copy, call.args, call.kwnames);
}

// Positional arguments: the partial's, then ours; keywords: the partial's, updated by ours.
Value ObjectCalls::CallPartial(Activation& act, ValueView partial, absl::Span<const ValueView> args,
                               BorrowedRef kwnames) {
  const Tracked* t = objects_.Find(partial.object);
  Value parts[3];
  const char* const names[] = {"func", "args", "keywords"};
  for (int i = 0; i < 3; ++i) {
    const Ref part = Ref::Steal(PyObject_GetAttrString(partial.object, names[i]));
    parts[i] = t == nullptr
                   ? Value{part, kNoSource}
                   : objects_.Adopt(part, reads_.sources().Intern(SourceKind::kPartialField, t->source, 0,
                                                                  Ref::Steal(PyUnicode_InternFromString(names[i]))));
    if (!parts[i]) return Value();
  }
  const Ref keywords = Ref::Steal(PyDict_New());
  if (!meaning_.DictUpdate(act, keywords, parts[2], nullptr)) return Value();
  const std::size_t positional = PositionalCount(args, kwnames);
  for (std::size_t i = positional; i < args.size(); ++i) {
    reads_.Move(args[i]);
    PyDict_SetItem(keywords, PyTuple_GET_ITEM(kwnames.get(), static_cast<Py_ssize_t>(i - positional)), args[i].object);
  }
  const Ref all = Ref::Steal(PyList_New(0));
  if (!meaning_.ListExtend(act, all, parts[1])) return Value();
  for (std::size_t i = 0; i < positional; ++i) {
    reads_.Move(args[i]);
    PyList_Append(all, args[i].object);
  }
  const Ref tuple = Ref::Steal(PyList_AsTuple(all));
  return CallEx(act, parts[0], ValueView(tuple, kNoSource), ValueView(keywords, kNoSource));
}

// operator.methodcaller without keywords.
Value ObjectCalls::CallMethodCaller(Activation& act, ValueView caller, absl::Span<const ValueView> args,
                                    BorrowedRef kwnames) {
  if (kwnames || args.size() != 1) return natives_.CallNative(caller.object, args, kwnames);  // raises
  if (objects_.Find(caller.object) != nullptr)
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, "operator.methodcaller");
  const Ref reduced = Ref::Steal(PyObject_CallMethod(caller.object, "__reduce__", nullptr));
  if (!reduced) return Value();
  PyObject* parts = PyTuple_GET_ITEM(reduced.get(), 1);
  if (PyTuple_GET_ITEM(reduced.get(), 0) != reinterpret_cast<PyObject*>(MethodCallerType())) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, "operator.methodcaller with keywords");
  }
  const Value method = boundary_.Catching([&] { return meaning_.LoadAttr(act, args[0], PyTuple_GET_ITEM(parts, 0)); });
  if (!method) return Value();
  ValueVector own;
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(parts); ++i) own.emplace_back(PyTuple_GET_ITEM(parts, i), kNoSource);
  return calls_.CallWith(act, method, own, nullptr, Completion::kCallback);
}

// operator.attrgetter: each of its names, dotted ones from attribute to attribute.
Value ObjectCalls::CallAttrGetter(Activation& act, ValueView getter, absl::Span<const ValueView> args,
                                  BorrowedRef kwnames) {
  if (kwnames || args.size() != 1) return natives_.CallNative(getter.object, args, kwnames);  // raises
  if (const Tracked* t = objects_.Find(getter.object)) reads_.AddGuard(t->source, GuardKind::kIdentity, t->original);
  const Ref reduced = Ref::Steal(PyObject_CallMethod(getter.object, "__reduce__", nullptr));
  if (!reduced) return Value();
  PyObject* names = PyTuple_GET_ITEM(reduced.get(), 1);
  std::vector<Value> found;
  const bool used = PyTuple_GET_SIZE(names) > 1 || Utf8(PyTuple_GET_ITEM(names, 0)).find('.') != std::string::npos;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    const std::string dotted = Utf8(PyTuple_GET_ITEM(names, i));
    Value v{Ref::Create(args[0].object), args[0].source};
    for (absl::string_view part : absl::StrSplit(dotted, '.')) {
      Ref name = Ref::Steal(PyUnicode_FromStringAndSize(part.data(), static_cast<Py_ssize_t>(part.size())));
      PyObject* interned = name.release();
      PyUnicode_InternInPlace(&interned);
      name = Ref::Steal(interned);
      const auto load = [&] { return meaning_.LoadAttr(act, v, name); };
      v = used ? boundary_.Catching(load) : load();
      if (!v) return Value();
    }
    found.push_back(std::move(v));
  }
  if (found.size() == 1) return std::move(found[0]);
  const std::vector<ValueView> views(found.begin(), found.end());
  return meaning_.BuildTuple(act, views);
}

Value ObjectCalls::CallEx(Activation& act, ValueView callable, ValueView args, ValueView kwargs) {
  Tracked* t = objects_.Find(args.object);
  if (t != nullptr && !contents_.Realise(*t, false)) return Value();
  if (kwargs.object) {
    Tracked* k = objects_.Find(kwargs.object);
    if (k != nullptr && !contents_.Realise(*k, true)) return Value();
  }
  Ref tuple = PyTuple_CheckExact(args.object.get()) ? Ref::Create(args.object) : Ref();
  // It holds nothing but integers, which may be symbolic: they are only moved.
  const bool sizes = t == nullptr && THPSize_Check(args.object.get());
  if (sizes) reads_.Move(args);
  if (sizes) tuple = Ref::Steal(PyTuple_GetSlice(args.object, 0, PyTuple_GET_SIZE(args.object.get())));
  if (!tuple) {
    const bool moves = PyList_CheckExact(args.object.get());  // numbers in it, too
    if (!(moves ? arguments_.PrepareOuter(args) : arguments_.PrepareNative(args))) return Value();
    tuple = Ref::Steal(boundary_.Run([&] { return PySequence_Tuple(args.object); }, args.object));
    if (!boundary_.Check()) return Value();
    if (!tuple) return native_.CallEx(act, callable, args, kwargs);  // raises with the callable's name
  }
  std::vector<Value> keep;
  ValueVector all;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) {
    SourceId source = kNoSource;
    if (t != nullptr && t->kind == TrackedKind::kTuple) {
      source = reads_.sources().Item(t->source, Ref::Steal(PyLong_FromSsize_t(i)));
    }
    PyObject* item = PyTuple_GET_ITEM(tuple.get(), i);
    if (!IsLeaf(item)) {
      Tracked* known = objects_.Find(item);
      source = known != nullptr ? known->source : kNoSource;
    }
    all.push_back(ValueView(item, source));
  }
  Ref names;
  if (kwargs.object && PyDict_Check(kwargs.object.get()) && PyDict_GET_SIZE(kwargs.object.get()) > 0) {
    names = Ref::Steal(PyTuple_New(PyDict_GET_SIZE(kwargs.object.get())));
    PyObject *key, *value;
    Py_ssize_t position = 0, i = 0;
    while (PyDict_Next(kwargs.object, &position, &key, &value)) {
      if (!PyUnicode_Check(key)) return native_.CallEx(act, callable, args, kwargs);  // raises
      PyTuple_SET_ITEM(names.get(), i++, Py_NewRef(key));
      all.push_back(ValueView(value, kNoSource));
    }
  }
  Ref keep_kwargs = Ref::Create(kwargs.object);
  return calls_.CallWith(act, callable, all, names, Completion::kPush);
}

}  // namespace framefuse
