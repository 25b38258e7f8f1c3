#include "symbolic/calls/builtin_calls.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "common/check.h"
#include "frame_eval/hook.h"
#include "frame_eval/import_module.h"
#include "frame_eval/versions/private_api.h"
#include "guards/immutable.h"
#include "guards/read.h"
#include "symbolic/calls/call_evaluator.h"
#include "symbolic/calls/class_statements.h"
#include "symbolic/calls/log_calls.h"
#include "symbolic/calls/native_calls.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/journals/backward_phase.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/class_order.h"
#include "symbolic/journals/frame_stack.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/random_draws.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/protocols/iteration.h"
#include "symbolic/protocols/text_conversion.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/rules/numpy_scalars.h"
#include "symbolic/rules/operator_functions.h"
#include "symbolic/rules/random_methods.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

Value None() { return Value{Ref::Create(Py_None), kNoSource}; }

Value Boolean(bool b) { return Value{Ref::Create(b ? Py_True : Py_False), kNoSource}; }

Value FirstOf(absl::Span<const ValueView> args) {
  return args.empty() ? None() : Value{Ref::Create(args[0].object), args[0].source};
}

// Of a generator that was made here, or one that is to be made of a number: what comes follows from the number.
bool IsOfOwnGenerator(const ObjectTable& objects, BorrowedRef callable, absl::Span<const ValueView> args,
                      BorrowedRef kwnames) {
  if (args.empty()) return false;
  const bool makes = MakesGenerator(callable);
  const bool seeds = NameOfCallable(callable) == "seed";
  if (makes || seeds) {  // without a number Python and numpy ask the system for one
    if (kwnames || args.size() != (makes ? 1 : 2) || !PyLong_CheckExact(args.back().object.get())) return false;
  }
  if (makes) return true;
  const bool own =
      KindOfGenerator(args[0].object.type()) != GeneratorKind::kNone && objects.Find(args[0].object) == nullptr;
  return own && std::all_of(args.begin() + 1, args.end(), [](ValueView v) { return IsNumberForNumpy(v.object); });
}

bool IsPythonMethod(BorrowedRef o) { return o && PyFunction_Check(o.get()); }

// Whether an ABC's caches, the positive or the valid negative one, hold the class.
bool IsInAbcCache(PyObject* cls, PyObject* sub) {
  static PyObject* const module = ImportModule("_abc").release();
  const Ref dump = Ref::Steal(PyObject_CallMethod(module, "_get_dump", "O", cls));
  const Ref reference = dump ? Ref::Steal(PyWeakref_NewRef(sub, nullptr)) : Ref();
  if (!reference) {
    PyErr_Clear();
    return false;
  }
  const auto holds = [&](int which) {
    PyObject* set = PyTuple_GET_ITEM(dump.get(), which);
    return PyAnySet_Check(set) && PySet_Contains(set, reference) == 1;
  };
  if (holds(1)) return true;
  return PyObject_RichCompareBool(PyTuple_GET_ITEM(dump.get(), 3), ReadAbcToken(), Py_EQ) == 1 && holds(2);
}

bool IsProcessGroup(BorrowedRef object) {
  return std::string_view(object.type()->tp_name) == "torch._C._distributed_c10d.ProcessGroup";
}

// A case of one family does not come to another family's function.
Value OfAnotherFamily(SpecialCall which) {
  FF_CHECK(false) << "special call " << static_cast<int>(which) << " came to another family's function";
  return Value();
}

}  // namespace

BuiltinCalls::BuiltinCalls(Journals& journals, Protocols& meaning, ClassStatements& class_statements,
                           Iteration& iteration, TextConversion& text, CallEvaluator& calls, NativeCalls& natives,
                           AutogradCalls& autograd)
    : frames_(journals.frames()),
      tracer_(journals.tracer()),
      breaks_(journals.breaks()),
      backward_(journals.backward()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      arguments_(journals.arguments()),
      meaning_(meaning),
      class_statements_(class_statements),
      iteration_(iteration),
      text_(text),
      calls_(calls),
      natives_(natives),
      signatures_(journals, natives),
      draws_(journals.draws()),
      listings_(journals, calls),
      torch_(journals, calls, natives, autograd) {}

Value BuiltinCalls::CallAbcCheck(Activation& act, ValueView callable, absl::Span<const ValueView> args,
                                 bool of_instance) {
  if (args[1].source != kNoSource && IsLeaf(args[1].object)) {
    reads_.AddGuard(args[1].source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(args[1].object.type()));
  }
  PyObject* cls = args[0].object;
  PyObject* sub = of_instance ? reinterpret_cast<PyObject*>(args[1].object.type()) : args[1].object.get();
  const BorrowedRef hook = reads_.LookupInType(reinterpret_cast<PyTypeObject*>(cls), "__subclasshook__");
  const Ref function = hook && Py_IS_TYPE(hook.get(), &PyClassMethod_Type)
                           ? Ref::Steal(PyObject_GetAttrString(hook, "__func__"))
                           : Ref();
  const bool users =
      IsPythonMethod(function) && !IsSkippedCode(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function.get())));
  if (!users || IsInAbcCache(cls, sub)) {
    // The library's own hooks only look at classes; what they run is not counted, since a cache may spare it next time.
    const HookScope native(HookMode::kOff);
    Value answer = natives_.CallNative(callable.object, args, nullptr);
    if (answer && answer.object.get() == Py_False) {
      reads_.AddGuard(reads_.sources().Intern(SourceKind::kAbcToken, kNoSource, 0, nullptr), GuardKind::kEquals,
                      ReadAbcToken());
    }
    return answer;
  }
  const std::uint64_t writes = writes_.count();
  const int operations = tracer_.NodeCount();
  const ValueView both[] = {args[0], of_instance ? ValueView(sub, reads_.ConstantSource(sub)) : args[1]};
  Value answer = calls_.CallFunction(act, objects_.Adopt(function, reads_.ConstantSource(function)), both, nullptr,
                                     Completion::kCallback);
  if (!answer || !PyBool_Check(answer.object.get()) || writes != writes_.count() || operations != tracer_.NodeCount()) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable,
                         "a __subclasshook__ that does more than answer True or False");
  }
  // Made for real when the entry runs, the check fills the ABC's cache.
  CachedCall call;
  call.wrapper = Ref::Create(callable.object);
  call.args = Ref::Steal(PyTuple_Pack(2, cls, args[1].object.get()));
  writes_.AddCall(std::move(call));
  return answer;
}

Value BuiltinCalls::CallAttributeBuiltin(Activation& act, SpecialCall which, ValueView callable,
                                         absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const std::size_t n = args.size();
  const bool plain = !kwnames;
  const auto raise = [&] {  // wrong arguments: the builtin itself says so
    return arguments_.PrepareAll(args) ? natives_.CallNative(callable.object, args, kwnames) : Value();
  };
  if (n >= 2 && PyUnicode_Check(args[1].object.get()) && !PyUnicode_CheckExact(args[1].object.get())) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "an attribute's name of a class derived from str");
  }
  switch (which) {
    case SpecialCall::kGetAttr: {
      if (!plain || n < 2 || n > 3 || !PyUnicode_Check(args[1].object.get())) return raise();
      reads_.Consume(args[1]);
      const auto load = [&] { return meaning_.LoadAttr(act, args[0], args[1].object); };
      Value v = n == 2 ? load() : boundary_.Catching(load);
      if (v || n == 2 || !PyErr_ExceptionMatches(PyExc_AttributeError)) return v;
      PyErr_Clear();
      return Value{Ref::Create(args[2].object), args[2].source};
    }
    case SpecialCall::kHasAttr: {
      if (!plain || n != 2 || !PyUnicode_Check(args[1].object.get())) return raise();
      reads_.Consume(args[1]);
      Value v = boundary_.Catching([&] { return meaning_.LoadAttr(act, args[0], args[1].object); });
      if (v) return Boolean(true);
      if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return Value();
      PyErr_Clear();
      return Boolean(false);
    }
    case SpecialCall::kSetAttr:
      if (!plain || n != 3 || !PyUnicode_Check(args[1].object.get())) return raise();
      reads_.Consume(args[1]);
      return meaning_.StoreAttr(act, args[0], args[1].object, args[2]) ? None() : Value();
    case SpecialCall::kDelAttr:
      if (!plain || n != 2 || !PyUnicode_Check(args[1].object.get())) return raise();
      reads_.Consume(args[1]);
      return meaning_.DeleteAttr(act, args[0], args[1].object) ? None() : Value();
#define FF_FAMILY kAttribute
#include "symbolic/calls/other_families.def"
      break;
  }
  return OfAnotherFamily(which);
}

Value BuiltinCalls::CallTypeBuiltin(Activation& act, SpecialCall which, ValueView callable,
                                    absl::Span<const ValueView> args, BorrowedRef kwnames) {
  // A leaf's type is read and its value is not; any other object's type is guarded where it is adopted.
  const auto guard_leaf_type = [&](const ValueView& v) {
    if (v.source == kNoSource || !IsLeaf(v.object)) return;
    reads_.AddGuard(v.source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(v.object.type()));
  };
  const std::size_t n = args.size();
  const bool plain = !kwnames;
  const auto raise = [&] {  // wrong arguments: the builtin itself says so
    return arguments_.PrepareAll(args) ? natives_.CallNative(callable.object, args, kwnames) : Value();
  };
  switch (which) {
    case SpecialCall::kAbcCheck:
    case SpecialCall::kAbcSubclassCheck:
      if (!plain || n != 2 || !PyType_Check(args[0].object.get())) return raise();
      return CallAbcCheck(act, callable, args, which == SpecialCall::kAbcCheck);
    case SpecialCall::kIsInstance:
    case SpecialCall::kIsSubclass: {
      if (!plain || n != 2) return raise();
      guard_leaf_type(args[0]);  // ABCs look at the class only
      PyObject *object = args[0].object, *cls = args[1].object;
      const bool of_class = which == SpecialCall::kIsSubclass && PyType_Check(object);
      GuardClassOrder(reads_, of_class ? reinterpret_cast<PyTypeObject*>(object) : Py_TYPE(object));
      const int result = boundary_.Run([&] {
        return which == SpecialCall::kIsInstance ? PyObject_IsInstance(object, cls) : PyObject_IsSubclass(object, cls);
      });
      if (!boundary_.Check() || result < 0) return Value();
      return Boolean(result != 0);
    }
    case SpecialCall::kCallable:
      if (!plain || n != 1) return raise();
      guard_leaf_type(args[0]);
      if ((args[0].object.type()->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0)
        reads_.LookupInType(args[0].object.type(), "__call__");
      return Boolean(PyCallable_Check(args[0].object) != 0);
    case SpecialCall::kType: {
      if (plain && n == 3) return class_statements_.BuildByType(act, callable, args);
      if (!plain || n != 1) return breaks_.Break(GraphBreakKind::kClassDefinition, "type() with other arguments");
      guard_leaf_type(args[0]);
      auto* type = reinterpret_cast<PyObject*>(args[0].object.type());
      return objects_.Adopt(type, reads_.ConstantSource(type));
    }
    case SpecialCall::kBuildClass:
      return class_statements_.Build(act, callable, args, kwnames);
    case SpecialCall::kSuper:
      if (n == 0) {  // __class__ and the first argument are read by C code: see that they are representatives
        PyCodeObject* code = frame_ops::Code(act.frame);
        const int slots = frame_ops::SlotCount(code);
        for (int i = 0; i < slots; ++i) {
          if (act.sources[static_cast<std::size_t>(i)] == kUnadopted && frame_ops::Slots(act.frame)[i] != nullptr) {
            if (!meaning_.AdoptSlot(act, i)) return Value();
          }
        }
      }
      return natives_.CallNative(callable.object, args, kwnames);
#define FF_FAMILY kType
#include "symbolic/calls/other_families.def"
      break;
  }
  return OfAnotherFamily(which);
}

Value BuiltinCalls::CallObjectBuiltin(Activation& act, SpecialCall which, ValueView callable,
                                      absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const std::size_t n = args.size();
  const bool plain = !kwnames;
  const auto raise = [&] {  // wrong arguments: the builtin itself says so
    return arguments_.PrepareAll(args) ? natives_.CallNative(callable.object, args, kwnames) : Value();
  };
  switch (which) {
    case SpecialCall::kLen:
      if (!plain || n != 1) return raise();
      return meaning_.GetLength(act, args[0]);
    case SpecialCall::kIter:
      if (!plain || n != 1) return raise();
      return meaning_.GetIter(act, args[0]);
    case SpecialCall::kNext:
      if (!plain || n < 1 || n > 2 || args[0].object.type()->tp_iternext == nullptr) return raise();
      return iteration_.NextOf(act, args);
    case SpecialCall::kId:
      return plain && n == 1 ? AddressOf(act, args[0]) : breaks_.Break(GraphBreakKind::kIdentityOfFresh, "id()");
    case SpecialCall::kHash:
      return plain && n == 1 ? HashOf(callable, args) : raise();
    case SpecialCall::kVars: {
      if (!plain || n != 1) return breaks_.Break(GraphBreakKind::kUnlistedCallable, "vars()");
      Ref name = Ref::Steal(PyUnicode_InternFromString("__dict__"));
      Value found = boundary_.Catching([&] { return meaning_.LoadAttr(act, args[0], name); });
      if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
      PyErr_Clear();
      PyErr_SetString(PyExc_TypeError, "vars() argument must have __dict__ attribute");
      return Value();
    }
    case SpecialCall::kSetItem:
      if (!plain || n != 3) return raise();
      return meaning_.SetItem(act, args[0], args[1], args[2]) ? None() : Value();
    case SpecialCall::kDelItem:
      if (!plain || n != 2) return raise();
      return meaning_.DeleteItem(act, args[0], args[1]) ? None() : Value();
    case SpecialCall::kInPlace:
      if (!plain || n != 2) return raise();
      return meaning_.Binary(act, OperatorNumber(NameOfCallable(callable.object)), args[0], args[1]);
#define FF_FAMILY kObject
#include "symbolic/calls/other_families.def"
      break;
  }
  return OfAnotherFamily(which);
}

Value BuiltinCalls::CallTextBuiltin(Activation& act, SpecialCall which, ValueView callable,
                                    absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const std::size_t n = args.size();
  const bool format = which == SpecialCall::kFormat;
  const bool container = n > 0 && (PyTuple_Check(args[0].object.get()) || PyList_CheckExact(args[0].object.get()) ||
                                   PyDict_Check(args[0].object.get()));
  if (container && !arguments_.PrepareNative(args[0], true)) return Value();
  if (!kwnames && (n == 1 || (format && n == 2))) {
    if (std::optional<Value> text = text_.TextOf(act, which, args)) return *std::move(text);
  }
  if (!arguments_.PrepareAll(args, format) || !arguments_.HaveTextOfTheirOwn(args)) return Value();
  return natives_.CallNative(callable.object, args, kwnames);
}

// A C function that writes the list or dict it is given.
Value BuiltinCalls::CallWriter(ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const bool known =
      !kwnames && !args.empty() && (PyList_CheckExact(args[0].object.get()) || PyDict_Check(args[0].object.get()));
  if (!known) return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
  Tracked* t = objects_.Find(args[0].object);
  if (!backward_.MayWrite() || !arguments_.PrepareAll(args) || (t != nullptr && !writes_.Replace(*t))) return Value();
  return natives_.CallNative(callable.object, args, nullptr);
}

// Of code that may call what only the standard library's and torch's own may.
Value BuiltinCalls::CallOfLibrary(SpecialCall which, ValueView callable, absl::Span<const ValueView> args,
                                  BorrowedRef kwnames) {
  if (which == SpecialCall::kLockEnter || which == SpecialCall::kLockExit) {
    which == SpecialCall::kLockEnter ? writes_.EnterRange() : writes_.LeaveRange();
    return which == SpecialCall::kLockEnter ? Boolean(true) : None();
  }
  for (const ValueView& arg : args) {
    const Tracked* t = objects_.Find(arg.object);
    if (t == nullptr || !IsProcessGroup(arg.object)) continue;
    // What it says of itself is so as long as it is that one.
    reads_.AddGuard(t->source, GuardKind::kIdentity, t->original);
  }
  Value result = natives_.CallNative(callable.object, args, kwnames);
  if (!result || !IsProcessGroup(result.object)) return result;
  for (const ValueView& arg : args) reads_.Consume(arg);
  return objects_.Adopt(result.object, reads_.ConstantSource(result.object));
}

Value BuiltinCalls::DrawOfOwn(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const bool makes = KindOfGenerator(args[0].object.type()) == GeneratorKind::kNone;
  if (!arguments_.PrepareAll(args.subspan(makes ? 0 : 1))) return Value();
  absl::InlinedVector<PyObject*, 4> all;
  for (const ValueView& v : args) all.push_back(v.object.get());
  const std::size_t named = kwnames ? static_cast<std::size_t>(PyTuple_GET_SIZE(kwnames.get())) : 0;
  const HookScope native(HookMode::kOff);
  return boundary_.Wrap(Ref::Steal(PyObject_Vectorcall(callable, all.data(), all.size() - named, kwnames)));
}

Value BuiltinCalls::CallOtherSpecial(Activation& act, SpecialCall which, ValueView callable,
                                     absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const auto refuse = [&] {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
  };
  switch (which) {
    case SpecialCall::kDir:
      return listings_.CallDir(act, callable, args, kwnames);
    case SpecialCall::kLocals:
      return breaks_.Break(GraphBreakKind::kUnlistedCallable, "locals()");
    case SpecialCall::kGlobals:
      return breaks_.Break(GraphBreakKind::kUnlistedCallable, "globals()");
    case SpecialCall::kRangeEnter:
      writes_.EnterRange();
      return FirstOf(args);
    case SpecialCall::kRangeExit:
      if (writes_.open_ranges() == 0)
        return breaks_.Break(GraphBreakKind::kUnlistedCallable, "the end of a profiler's range");
      writes_.LeaveRange();
      return None();
    case SpecialCall::kWritesArgument:
      return CallWriter(callable, args, kwnames);
    case SpecialCall::kExcInfo:
      if (frames_.handles_from_outside()) return refuse();
      reads_.GuardNothingHandled();
      return natives_.CallNative(callable.object, args, kwnames);
    case SpecialCall::kDraw:
      if (IsOfOwnGenerator(objects_, callable.object, args, kwnames)) return DrawOfOwn(callable.object, args, kwnames);
      return draws_.Draw(callable.object, args, kwnames);
    case SpecialCall::kLog:
      return Value{Ref::Create(DeferLog(frames_, reads_, objects_, writes_, args) ? Py_True : Py_False), kNoSource};
    case SpecialCall::kSignature:
      return !kwnames && args.size() == 1
                 ? signatures_.SignatureOf(callable, args[0], IsSkippedCode(frame_ops::Code(act.frame)))
                 : refuse();
    case SpecialCall::kLockEnter:
    case SpecialCall::kLockExit:
    case SpecialCall::kOfLibrary:
      if (!IsSkippedCode(frame_ops::Code(act.frame)) ||
          (which == SpecialCall::kLockExit && writes_.open_ranges() == 0)) {
        return refuse();
      }
      return CallOfLibrary(which, callable, args, kwnames);
    case SpecialCall::kNoneCall:
      return None();
#define FF_FAMILY kOther
#include "symbolic/calls/other_families.def"
      break;
  }
  return OfAnotherFamily(which);
}

Value BuiltinCalls::CallSpecial(Activation& act, SpecialCall which, ValueView callable,
                                absl::Span<const ValueView> args, BorrowedRef kwnames) {
  switch (FamilyOf(which)) {
    case SpecialFamily::kAttribute:
      return CallAttributeBuiltin(act, which, callable, args, kwnames);
    case SpecialFamily::kType:
      return CallTypeBuiltin(act, which, callable, args, kwnames);
    case SpecialFamily::kObject:
      return CallObjectBuiltin(act, which, callable, args, kwnames);
    case SpecialFamily::kText:
      return CallTextBuiltin(act, which, callable, args, kwnames);
    case SpecialFamily::kTorch:
      return torch_.Call(act, which, callable, args, kwnames);
    case SpecialFamily::kOther:
      return CallOtherSpecial(act, which, callable, args, kwnames);
  }
  return Value();
}

}  // namespace framefuse
