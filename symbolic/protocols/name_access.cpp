#include "symbolic/protocols/name_access.h"

#include "absl/strings/str_cat.h"
#include "guards/leaf/global_state.h"
#include "guards/leaf/tensor.h"
#include "symbolic/calls/class_statements.h"
#include "symbolic/evaluator/native_errors.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/frame_stack.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/object_contents.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"

namespace framefuse {
namespace {

// The frame's names stand in a dict that was made in the attempt: a class statement's, or of code that the library
// runs.
bool IsClassBody(const Activation& act) {
  PyObject* locals = frame_ops::Locals(act.frame);
  return locals != nullptr && PyDict_Check(locals) && act.completion != Completion::kRoot;
}

// A function in the body of a class may look names up there, too.
bool IsNamespace(const Activation& act, BorrowedRef mapping) {
  return mapping && PyDict_Check(mapping.get()) && act.completion != Completion::kRoot;
}

}  // namespace

NameAccess::NameAccess(Journals& journals, NativeProtocols& native, ClassStatements& class_statements)
    : frames_(journals.frames()),
      breaks_(journals.breaks()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      contents_(journals.contents()),
      native_(native),
      class_statements_(class_statements) {}

Value NameAccess::AdoptSlot(Activation& act, int slot) {
  PyObject** slots = frame_ops::Slots(act.frame);
  Value v = objects_.AdoptLocal(act, slots[slot], slot);
  if (!v) return Value();
  Py_SETREF(slots[slot], Py_NewRef(v.object.get()));
  act.sources[static_cast<std::size_t>(slot)] = v.source;
  return v;
}

void NameAccess::SeeWhetherBound(Activation& act, int slot) {
  const BorrowedRef value(frame_ops::Slots(act.frame)[slot]);
  if (!value) return reads_.AddGuard(reads_.sources().Local(slot), GuardKind::kNull, nullptr);
  // Of what nothing else reads nothing else is guarded.
  const SourceId source = act.sources[static_cast<std::size_t>(slot)];
  if (source == kNoSource || reads_.sources()[source].kind != SourceKind::kLocal) return;
  const Tracked* t = objects_.Find(value);
  PyTypeObject* type = t != nullptr ? t->original.type() : value.type();
  reads_.AddGuard(source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(type));
}

BorrowedRef NameAccess::GlobalsOf(Activation& act) { return frame_ops::Globals(act.frame); }

SourceId NameAccess::GlobalsSource(Activation& act) {
  PyObject* globals = frame_ops::Globals(act.frame);
  if (globals == frame_ops::Globals(frames_.real_frame())) {
    return reads_.sources().Intern(SourceKind::kGlobals, kNoSource, 0, nullptr);
  }
  return reads_.ConstantSource(globals);  // the function's identity or its __globals__ is guarded
}

SourceId NameAccess::BuiltinsSource(Activation& act) {
  PyObject* builtins = frame_ops::Builtins(act.frame);
  if (builtins != frame_ops::Builtins(frames_.real_frame())) return reads_.ConstantSource(builtins);
  return reads_.sources().Intern(SourceKind::kBuiltins, kNoSource, 0, nullptr);
}

Value NameAccess::LoadGlobal(Activation& act, BorrowedRef name) {
  // What was read before reads the same again, and its guards are there; until the program writes a global.
  if (!writes_.globals().empty() || frame_ops::Builtins(act.frame) != frame_ops::Builtins(frames_.real_frame())) {
    return ReadGlobal(act, name);
  }
  const auto place = std::make_pair(frame_ops::Globals(act.frame), name.get());
  if (const auto known = global_reads_.find(place); known != global_reads_.end()) {
    return Value{Ref::Create(known->second.object), known->second.source};
  }
  Value found = ReadGlobal(act, name);
  if (!found) return found;
  const bool leaf = IsLeaf(found.object);
  if (!leaf && objects_.Find(found.object) == nullptr) return found;
  // No reference to what may end in the program: the table of tracked objects has one.
  global_reads_[place] = GlobalRead{found.object, found.source, leaf ? found.object : Ref()};
  return found;
}

Value NameAccess::ReadGlobal(Activation& act, BorrowedRef name) {
  PyObject* globals = GlobalsOf(act);
  const SourceId globals_source = GlobalsSource(act);
  const OverlayWrite* written = writes_.FindGlobal(globals, name);
  if (written != nullptr && written->value) return Value{written->value, kNoSource};
  PyObject* found = written != nullptr ? nullptr : PyDict_GetItemWithError(globals, name);
  if (found != nullptr) return objects_.Adopt(found, reads_.sources().Item(globals_source, name));
  if (PyErr_Occurred()) return Value();
  if (written == nullptr) reads_.AddGuard(globals_source, GuardKind::kLacksKey, name);
  PyObject* builtins = frame_ops::Builtins(act.frame);
  if (!PyDict_CheckExact(builtins)) return breaks_.Break(GraphBreakKind::kOpaqueObject, "builtins that are not a dict");
  found = PyDict_GetItemWithError(builtins, name);
  const SourceId builtins_source = BuiltinsSource(act);
  if (found != nullptr) return objects_.Adopt(found, reads_.sources().Item(builtins_source, name));
  reads_.AddGuard(builtins_source, GuardKind::kLacksKey, name);
  SetNameError(name);
  return Value();
}

bool NameAccess::StoreGlobal(Activation& act, BorrowedRef name, ValueView value) {
  reads_.Move(value);
  return writes_.WriteGlobal(GlobalsOf(act), name, value.object);
}

bool NameAccess::DeleteGlobal(Activation& act, BorrowedRef name) {
  PyObject* globals = GlobalsOf(act);
  const OverlayWrite* written = writes_.FindGlobal(globals, name);
  PyObject* found = written != nullptr ? written->value.get() : PyDict_GetItemWithError(globals, name);
  if (found != nullptr) {
    if (written == nullptr) {
      const Value old = objects_.Adopt(found, reads_.sources().Item(GlobalsSource(act), name));
      if (!old) return false;
      reads_.Consume(old);
    }
    return writes_.WriteGlobal(globals, name, nullptr);
  }
  if (written == nullptr) reads_.AddGuard(GlobalsSource(act), GuardKind::kLacksKey, name);
  SetNameError(name);
  return false;
}

Value NameAccess::LoadName(Activation& act, BorrowedRef name) {
  PyObject* locals = frame_ops::Locals(act.frame);
  if (IsClassBody(act)) {
    PyObject* found = PyDict_GetItemWithError(locals, name);
    if (found != nullptr) return Value{Ref::Create(found), kNoSource};
  } else if (locals != nullptr) {
    return breaks_.Break(GraphBreakKind::kUnsupportedOpcode, "LOAD_NAME outside a function");
  }
  return LoadGlobal(act, name);
}

bool NameAccess::StoreName(Activation& act, BorrowedRef name, ValueView value) {
  return class_statements_.StoreName(act, name, value);
}

bool NameAccess::DeleteName(Activation& act, BorrowedRef name) {
  return IsClassBody(act) ? native_.DeleteName(act, name)
                          : breaks_.BreakFalse(GraphBreakKind::kUnsupportedOpcode, "DELETE_NAME");
}

Value NameAccess::MakeCell(Activation& act, int slot, ValueView initial) {
  if (initial.object) reads_.Move(initial);
  return native_.MakeCell(act, slot, initial);
}

Value NameAccess::LoadDeref(Activation& act, int slot) {
  PyObject* cell = frame_ops::Slots(act.frame)[slot];
  Tracked* t = objects_.Find(cell);
  if (t == nullptr && act.sources[static_cast<std::size_t>(slot)] == kUnadopted) {
    if (!AdoptSlot(act, slot)) return Value();
    t = objects_.Find(cell);
  }
  if (t == nullptr) return native_.LoadDeref(act, slot);
  if (std::optional<Value> contents = contents_.InCell(*t)) return *std::move(contents);
  SetUnboundCellError(frame_ops::Code(act.frame), slot);
  return Value();
}

bool NameAccess::StoreDeref(Activation& act, int slot, ValueView value) {
  reads_.Move(value);
  PyObject* cell = frame_ops::Slots(act.frame)[slot];
  const bool unseen = act.sources[static_cast<std::size_t>(slot)] == kUnadopted;
  if (unseen && objects_.Find(cell) == nullptr && !LoadDeref(act, slot)) {  // adopts a cell of the closure
    if (PyErr_ExceptionMatches(PyExc_NameError) == 0) return false;
    PyErr_Clear();
  }
  Tracked* t = objects_.Find(cell);
  if (t == nullptr) return native_.StoreDeref(act, slot, value);
  return writes_.Write(*t, nullptr, Ref::Create(value.object));
}

bool NameAccess::DeleteDeref(Activation& act, int slot) {
  if (!LoadDeref(act, slot)) return false;  // there is nothing to delete
  Tracked* t = objects_.Find(frame_ops::Slots(act.frame)[slot]);
  return t == nullptr ? native_.DeleteDeref(act, slot) : writes_.Write(*t, nullptr, Ref());
}

Value NameAccess::LoadClassDeref(Activation& act, int slot) {
  return LoadFromDictOrDeref(act, ValueView(frame_ops::Locals(act.frame), kNoSource), slot);
}

Value NameAccess::LoadFromDictOrDeref(Activation& act, ValueView mapping, int slot) {
  if (!IsNamespace(act, mapping.object)) {
    return breaks_.Break(GraphBreakKind::kUnsupportedOpcode, "LOAD_FROM_DICT_OR_DEREF");
  }
  PyObject* name = PyTuple_GET_ITEM(frame_ops::Code(act.frame)->co_localsplusnames, slot);
  PyObject* found = PyDict_GetItemWithError(mapping.object, name);
  return found != nullptr ? Value{Ref::Create(found), kNoSource} : LoadDeref(act, slot);
}

Value NameAccess::LoadFromDictOrGlobals(Activation& act, ValueView mapping, BorrowedRef name) {
  if (!IsNamespace(act, mapping.object)) {
    return breaks_.Break(GraphBreakKind::kUnsupportedOpcode, "LOAD_FROM_DICT_OR_GLOBALS");
  }
  PyObject* found = PyDict_GetItemWithError(mapping.object, name);
  return found != nullptr ? Value{Ref::Create(found), kNoSource} : LoadGlobal(act, name);
}

Value NameAccess::LoadBuildClass(Activation& act) {
  static PyObject* const name = PyUnicode_InternFromString("__build_class__");
  PyObject* builtins = frame_ops::Builtins(act.frame);
  if (!PyDict_CheckExact(builtins)) return breaks_.Break(GraphBreakKind::kOpaqueObject, "builtins that are not a dict");
  if (PyObject* found = PyDict_GetItemWithError(builtins, name)) {
    return objects_.Adopt(found, reads_.sources().Item(BuiltinsSource(act), name));
  }
  reads_.AddGuard(BuiltinsSource(act), GuardKind::kLacksKey, name);
  return native_.LoadBuildClass(act);  // raises the NameError
}

Value NameAccess::LoadLocals(Activation& act) {
  if (IsClassBody(act)) return Value{Ref::Create(frame_ops::Locals(act.frame)), kNoSource};
  return breaks_.Break(GraphBreakKind::kUnsupportedOpcode, "LOAD_LOCALS");
}

bool NameAccess::SetupAnnotations(Activation& act) {
  return IsClassBody(act) ? native_.SetupAnnotations(act)
                          : breaks_.BreakFalse(GraphBreakKind::kUnsupportedOpcode, "SETUP_ANNOTATIONS");
}

}  // namespace framefuse
