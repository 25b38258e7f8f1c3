#include "symbolic/protocols/statements.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "frame_eval/hook.h"
#include "frame_eval/import_module.h"
#include "symbolic/calls/call_evaluator.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/class_order.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/protocols/attribute_reads.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {

Statements::Statements(Journals& journals, NativeProtocols& native, Protocols& meaning, AttributeReads& attributes,
                       CallEvaluator& calls)
    : breaks_(journals.breaks()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      arguments_(journals.arguments()),
      native_(native),
      meaning_(meaning),
      attributes_(attributes),
      calls_(calls) {}

bool Statements::BeforeWith(Activation& act, ValueView manager, Value* exit, Value* entered) {
  PyTypeObject* type = manager.object.type();
  BorrowedRef enter = reads_.LookupInType(type, "__enter__");
  BorrowedRef leave = reads_.LookupInType(type, "__exit__");
  if (!enter || !leave) return native_.BeforeWith(act, manager, exit, entered);  // raises the TypeError
  Value bound_exit = BindOfType(act, manager, leave, "__exit__");
  if (!bound_exit) return false;
  Value bound_enter = BindOfType(act, manager, enter, "__enter__");
  if (!bound_enter) return false;
  Value result = calls_.CallWith(act, bound_enter, {}, nullptr, Completion::kCallback);
  if (!result) return false;
  *exit = std::move(bound_exit);
  *entered = std::move(result);
  return true;
}

Value Statements::BindOfType(Activation& act, ValueView object, BorrowedRef found, const char* name) {
  PyTypeObject* type = object.object.type();
  const SourceId source = reads_.TypeAttr(type, Ref::Steal(PyUnicode_InternFromString(name)));
  return attributes_.BindDescriptor(act, found, source, object, type);
}

Value Statements::LoadSpecial(Activation& act, ValueView owner, frame_ops::SpecialMethod which) {
  const std::string name = Utf8(frame_ops::NameOf(which));
  BorrowedRef found = reads_.LookupInType(owner.object.type(), name.c_str());
  if (!found) return native_.LoadSpecial(act, owner, which);  // raises the TypeError
  return BindOfType(act, owner, found, name.c_str());
}

Value Statements::CallExit(Activation& act, ValueView exit, ValueView self, BorrowedRef type, BorrowedRef exception,
                           BorrowedRef traceback) {
  const ValueView args[] = {self, ValueView(type, kNoSource), ValueView(exception, kNoSource),
                            ValueView(traceback, kNoSource)};
  const absl::Span<const ValueView> all(args);
  return calls_.CallWith(act, exit, self.object ? all : all.subspan(1), nullptr, Completion::kPush);
}

Truth Statements::MatchMapping(Activation& act, ValueView v) {
  if (v.source != kNoSource && IsLeaf(v.object)) {
    reads_.AddGuard(v.source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(v.object.type()));
  }
  return native_.MatchMapping(act, v);
}

Truth Statements::MatchSequence(Activation& act, ValueView v) {
  if (v.source != kNoSource && IsLeaf(v.object)) {
    reads_.AddGuard(v.source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(v.object.type()));
  }
  return native_.MatchSequence(act, v);
}

Value Statements::MatchKeys(Activation& act, ValueView subject, ValueView keys) {
  if (!arguments_.PrepareNative(subject) || !arguments_.PrepareNative(keys)) return Value();
  Value v = boundary_.Run([&] { return native_.MatchKeys(act, subject, keys); });
  return boundary_.Check() ? std::move(v) : Value();
}

Value Statements::MatchClass(Activation& act, ValueView subject, ValueView cls, int positional, ValueView names) {
  reads_.Consume(subject);
  GuardClassOrder(reads_, subject.object.type());
  if (IsLeaf(subject.object) || objects_.Find(subject.object) == nullptr) {
    Value v = boundary_.Run([&] { return native_.MatchClass(act, subject, cls, positional, names); });
    return boundary_.Check() ? std::move(v) : Value();
  }
  // A tracked subject's attributes are read with their sources, in CPython's order.
  Value is = calls_.IsInstance(act, subject, cls);
  if (!is) return Value();
  if (is.object.get() == Py_False) return Value{Ref::Create(Py_None), kNoSource};
  Ref attributes = Ref::Steal(PyList_New(0));
  bool complete = true;
  const auto take = [&](BorrowedRef name) {
    Value v = meaning_.LoadAttr(act, subject, name);
    if (v) {
      reads_.Move(v);
      PyList_Append(attributes, v.object);
      return true;
    }
    return false;
  };
  if (positional > 0) {
    if ((subject.object.type()->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) {
      if (!arguments_.PrepareNative(subject)) return Value();
      return native_.MatchClass(act, subject, cls, positional, names);
    }
    Ref key = Ref::Steal(PyUnicode_InternFromString("__match_args__"));
    Value match_args = meaning_.LoadAttr(act, cls, key);
    if (!match_args && PyErr_ExceptionMatches(PyExc_AttributeError)) {
      PyErr_Clear();
      return native_.MatchClass(act, subject, cls, positional, names);  // raises the TypeError
    }
    if (!match_args) return Value();
    if (!PyTuple_CheckExact(match_args.object.get()) || PyTuple_GET_SIZE(match_args.object.get()) < positional) {
      return native_.MatchClass(act, subject, cls, positional, names);
    }
    for (int i = 0; i < positional && complete; ++i) complete = take(PyTuple_GET_ITEM(match_args.object.get(), i));
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.object.get()) && complete; ++i) {
    complete = take(PyTuple_GET_ITEM(names.object.get(), i));
  }
  if (complete) return Value{Ref::Steal(PyList_AsTuple(attributes)), kNoSource};
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return Value();
  PyErr_Clear();
  return Value{Ref::Create(Py_None), kNoSource};
}

// Torch's own code imports parts of torch where it first needs them: no part of the program, and without effect on it.
void Statements::ImportOfLibrary(BorrowedRef name, BorrowedRef fromlist) {
  const std::string module = Utf8(name);
  if (!absl::StartsWith(module, "torch.")) return;
  const HookScope native(HookMode::kOff);
  tracing::Tracer::Suspended suspended;
  const Ref imported = ImportModule(module.c_str());
  for (Py_ssize_t i = 0; imported && PyTuple_Check(fromlist.get()) && i < PyTuple_GET_SIZE(fromlist.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(fromlist.get(), i);
    if (PyObject_HasAttr(imported, item) == 0) ImportModule(absl::StrCat(module, ".", Utf8(item)).c_str());
  }
  PyErr_Clear();  // what cannot be imported breaks the graph
}

// Whether an import statement here is the interpreter's, which has no effects where the module is there; a guard says
// so.
bool Statements::ImportsAsPython(Activation& act) {
  static PyObject* const builtins = ImportModule("builtins").release();
  static PyObject* const name = PyUnicode_InternFromString("__import__");
  if (frame_ops::Builtins(act.frame) != PyModule_GetDict(builtins)) return false;
  const Value owner = objects_.Adopt(BorrowedRef(builtins), reads_.ConstantSource(builtins));
  const Value own = owner ? meaning_.LoadAttr(act, owner, name) : Value();
  if (!own || own.source == kNoSource) return false;
  if (!PyCFunction_CheckExact(own.object.get())) return false;
  if (PyCFunction_GET_SELF(own.object.get()) != builtins) return false;
  if (std::string_view(reinterpret_cast<PyCFunctionObject*>(own.object.get())->m_ml->ml_name) != "__import__")
    return false;
  reads_.AddGuard(own.source, GuardKind::kIdentity, own.object);
  return true;
}

// The package that the code belongs to, as import.c asks for it; nothing: Python is to look, and to warn or raise.
Ref Statements::PackageOf(Activation& act) {
  static PyObject* const package_name = PyUnicode_InternFromString("__package__");
  static PyObject* const spec_name = PyUnicode_InternFromString("__spec__");
  static PyObject* const own_name = PyUnicode_InternFromString("name");
  static PyObject* const locations_name = PyUnicode_InternFromString("submodule_search_locations");
  PyObject* globals = frame_ops::Globals(act.frame);
  if (PyDict_Contains(globals, package_name) != 1 || PyDict_Contains(globals, spec_name) != 1) return Ref();
  const Value package = meaning_.LoadGlobal(act, package_name);
  if (!package || package.source == kNoSource || !PyUnicode_CheckExact(package.object.get())) return Ref();
  reads_.Consume(package);
  const Value spec = meaning_.LoadGlobal(act, spec_name);
  if (!spec || spec.source == kNoSource) return Ref();
  if (spec.object.get() == Py_None) {
    reads_.Consume(spec);
    return Ref::Create(package.object);
  }
  if (std::string_view(spec.object.type()->tp_name) != "ModuleSpec") return Ref();
  const Value own = meaning_.LoadAttr(act, spec, own_name);
  const Value locations = own ? meaning_.LoadAttr(act, spec, locations_name) : Value();
  if (!locations || locations.source == kNoSource || !PyUnicode_CheckExact(own.object.get())) return Ref();
  reads_.Consume(own);
  reads_.AddGuard(locations.source, GuardKind::kIdentity, locations.object);
  std::string parent = Utf8(own.object);
  if (locations.object.get() == Py_None) parent.resize(parent.rfind('.') == std::string::npos ? 0 : parent.rfind('.'));
  return parent == Utf8(package.object) ? Ref::Create(package.object) : Ref();
}

Ref Statements::AbsoluteName(Activation& act, BorrowedRef name, long level) {
  if (level == 0) return Ref::Create(name);
  const Ref package = PackageOf(act);
  if (!package) return Ref();
  std::string base = Utf8(package);
  for (; level > 1 && !base.empty(); --level) base.resize(base.rfind('.') == std::string::npos ? 0 : base.rfind('.'));
  if (base.empty()) return Ref();
  if (PyUnicode_GET_LENGTH(name.get()) > 0) absl::StrAppend(&base, ".", Utf8(name));
  return Ref::Steal(PyUnicode_FromString(base.c_str()));
}

Value Statements::ImportName(Activation& act, BorrowedRef name, ValueView fromlist, ValueView level) {
  reads_.Consume(fromlist);
  reads_.Consume(level);
  if (!ImportsAsPython(act)) {
    return PyErr_Occurred() != nullptr ? Value()
                                       : breaks_.Break(GraphBreakKind::kImport, "by a function of the program's own");
  }
  PyObject* modules = PyImport_GetModuleDict();
  const Ref absolute = AbsoluteName(act, name, PyLong_AsLong(level.object));
  if (!absolute && PyErr_Occurred()) return Value();
  if (!absolute) return breaks_.Break(GraphBreakKind::kImport, absl::StrCat("a relative import of ", Utf8(name)));
  if (IsSkippedCode(frame_ops::Code(act.frame))) ImportOfLibrary(absolute, fromlist.object);
  PyObject* found = PyDict_GetItemWithError(modules, absolute);
  if (found == nullptr || !PyModule_Check(found)) return breaks_.Break(GraphBreakKind::kImport, Utf8(absolute));
  // `from a.b import c` may import the submodule a.b.c.
  if (PyTuple_Check(fromlist.object.get())) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fromlist.object.get()); ++i) {
      PyObject* item = PyTuple_GET_ITEM(fromlist.object.get(), i);
      if (!PyDict_Contains(PyModule_GetDict(found), item)) {
        return breaks_.Break(GraphBreakKind::kImport, absl::StrCat(Utf8(absolute), ".", Utf8(item)));
      }
    }
  }
  reads_.AddGuard(reads_.sources().Item(reads_.ConstantSource(modules), absolute), GuardKind::kIdentity, found);
  Value module = native_.ImportName(act, name, fromlist, level);
  if (!module) return module;
  return objects_.Adopt(module.object, reads_.ConstantSource(module.object));
}

Value Statements::ImportFrom(Activation& act, ValueView module, BorrowedRef name) {
  Value v = meaning_.LoadAttr(act, module, name);
  if (v || !PyErr_ExceptionMatches(PyExc_AttributeError)) return v;
  PyErr_Clear();
  return native_.ImportFrom(act, module, name);
}

bool Statements::ImportStar(Activation&, ValueView) {
  return breaks_.BreakFalse(GraphBreakKind::kUnsupportedOpcode, "IMPORT_STAR");
}

Value Statements::Intrinsic1(Activation& act, int which, ValueView v) {
  reads_.Consume(v);
  return native_.Intrinsic1(act, which, v);
}

Value Statements::Intrinsic2(Activation& act, int which, ValueView a, ValueView b) {
  reads_.Consume(a);
  reads_.Consume(b);
  return native_.Intrinsic2(act, which, a, b);
}

}  // namespace framefuse
