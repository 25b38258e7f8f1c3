#include "symbolic/calls/reductions.h"

#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>

#include <cstring>

#include "symbolic/calls/call_evaluator.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/made_classes.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_contents.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/protocols/attribute_reads.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {
namespace {

struct Names {
  Ref reduce = Ref::Steal(PyUnicode_InternFromString("__reduce__"));
  Ref getstate = Ref::Steal(PyUnicode_InternFromString("__getstate__"));
  Ref slots = Ref::Steal(PyUnicode_InternFromString("__slots__"));
  Ref slotnames = Ref::Steal(PyUnicode_InternFromString("__slotnames__"));
};

const Names& N() {
  static const Names* names = new Names();
  return *names;
}

// From protocol 2 on an object is made by copyreg.__newobj__; one below is left to Python's own code.
bool IsNewProtocol(BorrowedRef protocol) {
  if (!PyLong_CheckExact(protocol.get())) return false;
  int overflow = 0;
  const long number = PyLong_AsLongAndOverflow(protocol.get(), &overflow);
  return overflow == 0 && number >= 2 && number <= INT_MAX;
}

// object.__getstate__, bound to the object: C code knows it by its name.
bool IsGetStateOf(BorrowedRef method, BorrowedRef self) {
  return PyCFunction_Check(method.get()) && PyCFunction_GET_SELF(method.get()) == self.get() &&
         std::strcmp(reinterpret_cast<PyCFunctionObject*>(method.get())->m_ml->ml_name, "__getstate__") == 0;
}

// What C code holds to be the size of an object that has a __dict__ and weak references at most.
bool IsOfPlainSize(PyTypeObject* type) {
  Py_ssize_t size = PyBaseObject_Type.tp_basicsize;
  if (type->tp_dictoffset != 0 && (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) == 0) size += sizeof(PyObject*);
  if (type->tp_weaklistoffset > 0) size += sizeof(PyObject*);
  return type->tp_itemsize == 0 && type->tp_basicsize <= size;
}

// What torch has one of: it reduces to its name.
bool IsNamedByTorch(BorrowedRef o) {
  return THPDtype_Check(o.get()) || THPLayout_Check(o.get()) || THPMemoryFormat_Check(o.get());
}

bool IsContainer(PyTypeObject* base) { return base == &PyList_Type || base == &PyDict_Type || base == &PyODict_Type; }

// Whether copyreg finds no slots, runs no code of the program's to see that, and may write it down in the class.
bool LeavesEmptyNote(PyTypeObject* type) {
  PyTypeObject* meta = Py_TYPE(type);
  if (meta->tp_getattro != PyType_Type.tp_getattro || meta->tp_setattro != PyType_Type.tp_setattro ||
      frame_ops::TypeLookup(meta, N().slots) != nullptr || frame_ops::TypeLookup(meta, N().slotnames) != nullptr) {
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* cls = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    PyObject* slots = PyDict_GetItemWithError(frame_ops::TypeDict(cls), N().slots);
    if (slots != nullptr && (!PyTuple_CheckExact(slots) || PyTuple_GET_SIZE(slots) != 0)) return false;
  }
  return true;
}

}  // namespace

Reductions::Reductions(Journals& journals, AttributeReads& attributes, CallEvaluator& calls)
    : breaks_(journals.breaks()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      contents_(journals.contents()),
      made_(journals.made()),
      attributes_(attributes),
      calls_(calls) {}

std::optional<Value> Reductions::Call(Activation& act, ValueView method, absl::Span<const ValueView> args) {
  PyTypeObject* type = args[0].object.type();
  PyTypeObject* base = NativeBase(type);
  if ((type == &PySet_Type || type == &PyFrozenSet_Type) && args.size() == 2 && IsNewProtocol(args[1].object)) {
    reads_.Consume(args[1]);
    return ReduceSet(act, args[0]);
  }
  if (IsNamedByTorch(args[0].object) && args.size() == 2 && IsNewProtocol(args[1].object)) {
    reads_.Consume(args[0]);
    reads_.Consume(args[1]);
    return boundary_.Wrap(Ref::Steal(PyObject_CallMethod(args[0].object, "__reduce_ex__", "O", args[1].object.get())));
  }
  const bool known = IsPythonClass(type) && (base == &PyBaseObject_Type || IsContainer(base));
  if ((!known && type != &PyODict_Type) || type->tp_new == nullptr || made_.IsMade(type)) return std::nullopt;
  if (args.size() == 1 && FactsOf(reinterpret_cast<PyDescrObject*>(method.object.get())).name == "__getstate__") {
    return OwnState(args[0]);
  }
  if (args.size() != 2 || !IsNewProtocol(args[1].object)) return std::nullopt;
  reads_.Consume(args[1]);
  return ReduceEx(act, method, args[0]);
}

// The class, and a list of the elements for it; a set has no other state.
Value Reductions::ReduceSet(Activation& act, ValueView self) {
  const BorrowedRef type(reinterpret_cast<PyObject*>(self.object.type()));
  const Value cls = objects_.Adopt(type, reads_.ConstantSource(type));
  if (!cls) return Value();
  const ValueView list(BorrowedRef(reinterpret_cast<PyObject*>(&PyList_Type)), kNoSource);
  const ValueView set[] = {self};
  const Value elements = calls_.CallWith(act, list, set, nullptr, Completion::kCallback);
  if (!elements) return Value();
  const Ref arguments = Ref::Steal(PyTuple_Pack(1, elements.object.get()));
  return {Ref::Steal(PyTuple_Pack(3, cls.object.get(), arguments.get(), Py_None)), kNoSource};
}

// In the order of C code: the object's __reduce__, that of its class, arguments for __new__, the state.
std::optional<Value> Reductions::ReduceEx(Activation& act, ValueView method, ValueView self) {
  PyTypeObject* type = self.object.type();
  const BorrowedRef class_object(reinterpret_cast<PyObject*>(type));
  const Value cls = objects_.Adopt(class_object, reads_.ConstantSource(class_object));
  if (!cls) return Value();
  const auto load = [&](ValueView owner) {
    return boundary_.Catching([&] { return attributes_.LoadAttr(act, owner, N().reduce); });
  };
  const Value reduce = load(self);
  if (!reduce) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return Value();
    PyErr_Clear();
  } else {
    const Value of_class = load(cls);
    if (!of_class) return Value();
    const bool ordered = NativeBase(type) == &PyODict_Type;
    if (of_class.object.get() != frame_ops::TypeLookup(ordered ? &PyODict_Type : &PyBaseObject_Type, N().reduce)) {
      return calls_.CallWith(act, reduce, {}, nullptr, Completion::kCallback);
    }
  }
  if (reads_.LookupInType(type, "__getnewargs_ex__") || reads_.LookupInType(type, "__getnewargs__")) {
    return std::nullopt;
  }
  std::optional<Value> state = StateOf(act, self);
  if (!state || !*state) return state;
  const ValueView parts[] = {cls, *state, self};
  return calls_.CallWith(act, ValueView(FindSubstitute(method.object), kNoSource), parts, nullptr,
                         Completion::kCallback);
}

std::optional<Value> Reductions::StateOf(Activation& act, ValueView self) {
  const Value getstate = boundary_.Catching([&] { return attributes_.LoadAttr(act, self, N().getstate); });
  if (!getstate) return Value();
  if (!IsGetStateOf(getstate.object, self.object)) {
    return calls_.CallWith(act, getstate, {}, nullptr, Completion::kCallback);
  }
  // One that existed before may be bound to another object next time.
  return objects_.Find(getstate.object) == nullptr ? OwnState(self) : std::nullopt;
}

// The dict of the object's attributes itself; None if it is empty.
std::optional<Value> Reductions::OwnState(ValueView self) {
  Value none{Ref::Create(Py_None), kNoSource};
  if (self.object.type() == &PyODict_Type) return none;
  if (!HasNoSlots(self.object.type())) return std::nullopt;
  Tracked* t = objects_.Find(self.object);
  if (!frame_ops::HasInstanceAttrs(t != nullptr ? BorrowedRef(t->original) : self.object)) return none;
  if (t != nullptr) {
    if (t->holder_of_attributes().kind != TrackedKind::kInstance) return std::nullopt;
    Tracked* dict = objects_.InstanceDictOf(t->holder_of_attributes());
    const std::int64_t size = contents_.Length(*dict);
    if (size < 0) return Value();
    return size == 0 ? std::move(none) : Value{dict->representative, kNoSource};
  }
  PyObject *name = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  if (!frame_ops::NextInstanceAttr(self.object, &position, &name, &value)) return none;
  Ref dict = Ref::Steal(PyObject_GenericGetDict(self.object, nullptr));
  if (dict) objects_.NoteFreshDict(dict, self.object);
  return Value{std::move(dict), kNoSource};
}

// Python looks for a note of the names in the class itself, and leaves one where there is none.
bool Reductions::HasNoSlots(PyTypeObject* type) {
  if (!IsContainer(NativeBase(type)) && !IsOfPlainSize(type)) return false;
  const BorrowedRef found = reads_.LookupInType(type, N().slotnames);
  PyObject* own = PyDict_GetItemWithError(frame_ops::TypeDict(type), N().slotnames);
  if (own == nullptr) {
    if (!LeavesEmptyNote(type)) return false;
    writes_.LeaveSlotNames(reinterpret_cast<PyObject*>(type));
    return true;
  }
  if (own != found.get() || !PyList_CheckExact(own) || PyList_GET_SIZE(own) != 0) return false;
  reads_.AddLength(reads_.TypeAttr(type, N().slotnames), 0);
  return true;
}

}  // namespace framefuse
