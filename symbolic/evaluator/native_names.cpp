// NativeProtocols: names, cells, attributes and imports.
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/private_api.h"
#include "symbolic/evaluator/native_errors.h"
#include "symbolic/evaluator/native_protocols.h"

namespace framefuse {
namespace {

Value Fresh(PyObject* owned) { return {Ref::Steal(owned), kNoSource}; }
Value Lent(PyObject* borrowed) { return {Ref::Create(borrowed), kNoSource}; }

// mapping[name]; null without an error where it is absent.
Ref Find(PyObject* mapping, PyObject* name) {
  if (PyDict_CheckExact(mapping)) return Ref::Create(PyDict_GetItemWithError(mapping, name));
  Ref value = Ref::Steal(PyObject_GetItem(mapping, name));
  if (!value && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
  return value;
}

Value FindInScopes(Activation& act, PyObject* name) {
  Ref value = Find(frame_ops::Globals(act.frame), name);
  if (!value && PyErr_Occurred() == nullptr) value = Find(frame_ops::Builtins(act.frame), name);
  if (!value && PyErr_Occurred() == nullptr) SetNameError(name);
  return {std::move(value), kNoSource};
}

PyObject*& CellContents(Activation& act, int slot) {
  return reinterpret_cast<PyCellObject*>(frame_ops::Slots(act.frame)[slot])->ob_ref;
}

PyObject* SlotName(Activation& act, int slot) {
  return PyTuple_GET_ITEM(frame_ops::Code(act.frame)->co_localsplusnames, slot);
}

PyObject* Interned(const char* text) { return PyUnicode_InternFromString(text); }

}  // namespace

StopAction NativeProtocols::OnStop(Activation&) { return StopAction::kContinue; }

Value NativeProtocols::AdoptSlot(Activation& act, int slot) { return Lent(frame_ops::Slots(act.frame)[slot]); }

Value NativeProtocols::LoadGlobal(Activation& act, BorrowedRef name) {
  PyObject* globals = frame_ops::Globals(act.frame);
  PyObject* builtins = frame_ops::Builtins(act.frame);
  if (PyDict_CheckExact(globals) && PyDict_CheckExact(builtins)) [[likely]] {
    const Py_hash_t hash = PyObject_Hash(name);
    if (PyObject* value = private_api::DictGet(globals, name, hash)) return Lent(value);
    if (PyErr_Occurred() != nullptr) return {};
    if (PyObject* value = private_api::DictGet(builtins, name, hash)) return Lent(value);
    if (PyErr_Occurred() == nullptr) SetNameError(name);
    return {};
  }
  // Either may be any mapping (exec): no look-up is skipped.
  Ref value = Ref::Steal(PyObject_GetItem(globals, name));
  if (!value && PyErr_ExceptionMatches(PyExc_KeyError)) {
    PyErr_Clear();
    value = Ref::Steal(PyObject_GetItem(builtins, name));
    if (!value && PyErr_ExceptionMatches(PyExc_KeyError)) {
      PyErr_Clear();
      SetNameError(name);
    }
  }
  return {std::move(value), kNoSource};
}

bool NativeProtocols::StoreGlobal(Activation& act, BorrowedRef name, ValueView value) {
  return PyDict_SetItem(frame_ops::Globals(act.frame), name, value.object) == 0;
}

bool NativeProtocols::DeleteGlobal(Activation& act, BorrowedRef name) {
  if (PyDict_DelItem(frame_ops::Globals(act.frame), name) == 0) return true;
  if (PyErr_ExceptionMatches(PyExc_KeyError)) {
    PyErr_Clear();
    SetNameError(name);
  }
  return false;
}

Value NativeProtocols::LoadName(Activation& act, BorrowedRef name) {
  PyObject* locals = frame_ops::Locals(act.frame);
  if (locals == nullptr) {
    PyErr_Format(PyExc_SystemError, "no locals when loading %R", name.get());
    return {};
  }
  return LoadFromDictOrGlobals(act, {locals, kNoSource}, name);
}

Value NativeProtocols::LoadFromDictOrGlobals(Activation& act, ValueView mapping, BorrowedRef name) {
  Ref value = Find(mapping.object, name);
  if (value) return {std::move(value), kNoSource};
  if (PyErr_Occurred() != nullptr) return {};
  return FindInScopes(act, name);
}

bool NativeProtocols::StoreName(Activation& act, BorrowedRef name, ValueView value) {
  PyObject* locals = frame_ops::Locals(act.frame);
  if (locals == nullptr) {
    PyErr_Format(PyExc_SystemError, "no locals found when storing %R", name.get());
    return false;
  }
  if (PyDict_CheckExact(locals)) return PyDict_SetItem(locals, name, value.object) == 0;
  return PyObject_SetItem(locals, name, value.object) == 0;
}

bool NativeProtocols::DeleteName(Activation& act, BorrowedRef name) {
  PyObject* locals = frame_ops::Locals(act.frame);
  if (locals == nullptr) {
    PyErr_Format(PyExc_SystemError, "no locals when deleting %R", name.get());
    return false;
  }
  if (PyObject_DelItem(locals, name) == 0) return true;
  SetNameError(name);
  return false;
}

Value NativeProtocols::LoadDeref(Activation& act, int slot) {
  PyObject* value = CellContents(act, slot);
  if (value == nullptr) SetUnboundCellError(frame_ops::Code(act.frame), slot);
  return Lent(value);
}

bool NativeProtocols::StoreDeref(Activation& act, int slot, ValueView value) {
  PyObject*& contents = CellContents(act, slot);
  PyObject* old = contents;
  contents = Py_NewRef(value.object.get());
  Py_XDECREF(old);
  return true;
}

bool NativeProtocols::DeleteDeref(Activation& act, int slot) {
  PyObject*& contents = CellContents(act, slot);
  PyObject* old = contents;
  if (old == nullptr) {
    SetUnboundCellError(frame_ops::Code(act.frame), slot);
    return false;
  }
  contents = nullptr;
  Py_DECREF(old);
  return true;
}

Value NativeProtocols::MakeCell(Activation&, int, ValueView initial) { return Fresh(PyCell_New(initial.object)); }

Value NativeProtocols::LoadClassDeref(Activation& act, int slot) {
  return LoadFromDictOrDeref(act, {frame_ops::Locals(act.frame), kNoSource}, slot);
}

Value NativeProtocols::LoadFromDictOrDeref(Activation& act, ValueView mapping, int slot) {
  Ref value = Find(mapping.object, SlotName(act, slot));
  if (value) return {std::move(value), kNoSource};
  if (PyErr_Occurred() != nullptr) return {};
  return NativeProtocols::LoadDeref(act, slot);
}

Value NativeProtocols::LoadBuildClass(Activation& act) {
  static PyObject* const name = Interned("__build_class__");
  Ref value = Find(frame_ops::Builtins(act.frame), name);
  if (!value && PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_NameError, "__build_class__ not found");
  return {std::move(value), kNoSource};
}

Value NativeProtocols::LoadLocals(Activation& act) {
  PyObject* locals = frame_ops::Locals(act.frame);
  if (locals == nullptr) PyErr_SetString(PyExc_SystemError, "no locals");
  return Lent(locals);
}

bool NativeProtocols::SetupAnnotations(Activation& act) {
  static PyObject* const name = Interned("__annotations__");
  PyObject* locals = frame_ops::Locals(act.frame);
  if (locals == nullptr) {
    PyErr_SetString(PyExc_SystemError, "no locals found when setting up annotations");
    return false;
  }
  if (Find(locals, name).get() != nullptr) return true;
  if (PyErr_Occurred() != nullptr) return false;
  const Ref annotations = Ref::Steal(PyDict_New());
  return annotations && PyObject_SetItem(locals, name, annotations) == 0;
}

Value NativeProtocols::LoadAttr(Activation&, ValueView owner, BorrowedRef name) {
  return Fresh(PyObject_GetAttr(owner.object, name));
}

Value NativeProtocols::LoadMethod(Activation&, ValueView owner, BorrowedRef name, Value* self) {
  bool is_unbound = false;
  Ref method = private_api::GetMethod(owner.object, name, &is_unbound);
  if (is_unbound) *self = {Ref::Create(owner.object), owner.source};
  return {std::move(method), kNoSource};
}

Value NativeProtocols::LoadSuperAttr(Activation&, ValueView global_super, ValueView cls, ValueView self,
                                     BorrowedRef name, bool two_argument, bool, Value*) {
  PyObject* const args[] = {cls.object, self.object};
  const Ref super = Ref::Steal(PyObject_Vectorcall(global_super.object, args, two_argument ? 2 : 0, nullptr));
  if (!super) return {};
  return Fresh(PyObject_GetAttr(super, name));
}

bool NativeProtocols::StoreAttr(Activation&, ValueView owner, BorrowedRef name, ValueView value) {
  return PyObject_SetAttr(owner.object, name, value.object) == 0;
}

bool NativeProtocols::DeleteAttr(Activation&, ValueView owner, BorrowedRef name) {
  return PyObject_SetAttr(owner.object, name, nullptr) == 0;
}

Value NativeProtocols::ImportName(Activation& act, BorrowedRef name, ValueView fromlist, ValueView level) {
  static PyObject* const import_name = Interned("__import__");
  const Ref import = Find(frame_ops::Builtins(act.frame), import_name);
  if (!import) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_ImportError, "__import__ not found");
    return {};
  }
  PyObject* locals = frame_ops::Locals(act.frame);
  PyObject* const args[] = {name, frame_ops::Globals(act.frame), locals == nullptr ? Py_None : locals, fromlist.object,
                            level.object};
  return Fresh(PyObject_Vectorcall(import, args, 5, nullptr));
}

}  // namespace framefuse
