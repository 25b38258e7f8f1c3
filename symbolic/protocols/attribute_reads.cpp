#include "symbolic/protocols/attribute_reads.h"

#include <Python.h>

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "frame_eval/hook.h"
#include "frame_eval/versions/private_api.h"
#include "guards/leaf/object_members.h"
#include "guards/made_reads.h"
#include "symbolic/calls/call_evaluator.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/class_numbers.h"
#include "symbolic/journals/class_order.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/made_classes.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_contents.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/protocols/missing_attributes.h"
#include "symbolic/protocols/special_methods.h"
#include "symbolic/protocols/tensor_attributes.h"
#include "symbolic/rules/annotations.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/call_rules.h"
#include "symbolic/rules/descriptors.h"
#include "symbolic/rules/number_arrays.h"
#include "symbolic/rules/plain_fields.h"
#include "symbolic/rules/random_methods.h"
#include "symbolic/rules/tensor_types.h"

namespace framefuse {
namespace {

struct Names {
  Ref func = Ref::Steal(PyUnicode_InternFromString("__func__"));
  Ref getattribute = Ref::Steal(PyUnicode_InternFromString("__getattribute__"));
  Ref getattr = Ref::Steal(PyUnicode_InternFromString("__getattr__"));
  Ref dict = Ref::Steal(PyUnicode_InternFromString("__dict__"));
  Ref klass = Ref::Steal(PyUnicode_InternFromString("__class__"));
  Ref get = Ref::Steal(PyUnicode_InternFromString("__get__"));
};

const Names& N() {
  static const Names* names = new Names();
  return *names;
}

bool IsAnnotations(BorrowedRef name) { return PyUnicode_CompareWithASCIIString(name, "__annotations__") == 0; }

// The entry makes it: so far it has its type and nothing else.
bool IsToCome(const Tracked* t) {
  return t != nullptr && t->kind == TrackedKind::kOpaque && t->source == kNoSource && !t->is_empty_array();
}

// torch.ops makes its namespaces, operators and overloads where they are first asked for, and keeps them: no part of
// the program.
void BindOperator(BorrowedRef torch_object, BorrowedRef name) {
  const HookScope native(HookMode::kOff);
  tracing::Tracer::Suspended suspended;
  const Ref made = Ref::Steal(PyObject_GetAttr(torch_object, name));
  if (!made) PyErr_Clear();  // the program's own look-up says so
}

// What a rule knows of a method that is no Python function; null: nothing.
BorrowedRef ListedFunction(BorrowedRef method) {
  if (!method) return BorrowedRef();
  if (method.type() != &PyInstanceMethod_Type) return DrawsForNumpy(method) ? method : BorrowedRef();
  const BorrowedRef function(PyInstanceMethod_GET_FUNCTION(method.get()));  // as pybind11 makes them
  return FindCallRule(function) != nullptr ? function : BorrowedRef();
}

}  // namespace

AttributeReads::AttributeReads(Journals& journals, SpecialMethods& special, MissingAttributes& missing,
                               TensorAttributes& tensor_attributes, CallEvaluator& calls)
    : breaks_(journals.breaks()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      contents_(journals.contents()),
      arguments_(journals.arguments()),
      made_(journals.made()),
      special_(special),
      missing_(missing),
      tensor_attributes_(tensor_attributes),
      calls_(calls),
      of_super_(journals, *this, calls),
      arrays_(journals) {}

Value AttributeReads::LoadAttr(Activation& act, ValueView owner, BorrowedRef name) {
  PyTuple_Check(owner.object.get()) ? reads_.Move(owner) : reads_.Consume(owner);  // a torch.Size has no number itself
  if (IsFakeTensor(owner.object)) return tensor_attributes_.TensorGetAttr(act, owner, name);
  Tracked* t = objects_.Find(owner.object);
  if (t != nullptr && (IsOperatorNamespace(owner.object.type()) || IsTorchOperator(owner.object.type()))) {
    BindOperator(t->original, name);
  }
  if (PyModule_Check(owner.object.get()) && owner.object.type()->tp_getattro == PyModule_Type.tp_getattro) {
    return ModuleGetAttr(act, owner, name);
  }
  if (PyType_Check(owner.object.get())) return TypeGetAttr(act, owner, name);
  if (owner.object.type() == &PySuper_Type) return of_super_.GetAttr(act, owner, name);
  PyTypeObject* type = owner.object.type();
  const bool heap = IsPythonClass(type);
  if (type == TorchFunctionsType() || type == AutogradEngineType()) {
    const Ref found = Ref::Steal(PyObject_GetAttr(owner.object, name));
    return found ? objects_.Adopt(found, reads_.ConstantSource(found)) : Value();
  }
  if (PyMethod_Check(owner.object.get()) &&
      !reads_.LookupInType(type, name)) {  // what a method has not its function has
    const Value function = GenericGetAttr(act, owner, N().func, false);
    return function ? LoadAttr(act, function, name) : Value();
  }
  if (t != nullptr && IsThreadLocal(type)) return ThreadLocalAttr(act, owner, *t, name);
  const bool array = IsArray(owner.object);
  if (std::optional<Value> made = arrays_.Attribute(owner, name)) return *std::move(made);
  const bool sized = array && IsSizeAttribute(Utf8(name)) && arrays_.HasKnownSizes(owner.object);
  const bool by_value = array ? sized || (IsReadAttribute(Utf8(name)) && arguments_.PrepareNative(owner))
                              : t == nullptr || IsRangeOrSlice(owner.object) ||
                                    (IsStructSequenceType(type) && arguments_.PrepareNative(owner));
  if (!heap && !by_value && (array || t->kind == TrackedKind::kOpaque)) {
    const BorrowedRef method = reads_.LookupInType(type, name);
    if (method && method.type() == &PyMethodDescr_Type && (array || FindCallRule(method) != nullptr)) {
      return BindDescriptor(act, method, reads_.ConstantSource(method), owner, type);
    }
    if (const BorrowedRef function = t != nullptr ? ListedFunction(method) : BorrowedRef()) {
      return Value{Ref::Steal(PyMethod_New(function, owner.object)), kNoSource};
    }
    const bool asked = method && (IsReadAsProperty(method.type()) || method.type() == &PyGetSetDescr_Type);
    if (t != nullptr && asked && FindCallRule(method) != nullptr) {
      reads_.AddGuard(t->source, GuardKind::kIdentity, t->original);
      return boundary_.Wrap(Ref::Steal(boundary_.Run([&] { return PyObject_GetAttr(t->original, name); })));
    }
    return breaks_.Break(GraphBreakKind::kOpaqueObject,
                         absl::StrCat("attribute ", Utf8(name), " of an object of type ", type->tp_name));
  }
  if (!heap && by_value)
    return boundary_.Wrap(Ref::Steal(boundary_.Run([&] { return PyObject_GetAttr(owner.object, name); })));
  if (heap) {
    if (const BorrowedRef own = special_.OwnOf(type, N().getattribute)) {
      return special_.CallGetAttribute(act, owner, own, name);
    }
    if (!ReadsGenerically(reads_.LookupInType(type, N().getattribute))) {
      return breaks_.Break(GraphBreakKind::kOpaqueObject,
                           absl::StrCat("attribute ", Utf8(name), " of an object of type ", type->tp_name,
                                        ", whose attributes C code finds"));
    }
  }
  return GenericGetAttr(act, owner, name, false);
}

Value AttributeReads::ThreadLocalAttr(Activation& act, ValueView owner, const Tracked& local, BorrowedRef name) {
  if (PyUnicode_Compare(name, N().dict) != 0) return GenericGetAttr(act, owner, name, false);
  const Tracked* const dict = contents_.ThreadDictOf(local);
  return dict != nullptr ? Value{dict->representative, dict->source} : Value();
}

// Also of a class derived from property that is read as one.
bool AttributeReads::IsReadAsProperty(PyTypeObject* kind) {
  const bool derived = kind != &PyProperty_Type && PyType_IsSubtype(kind, &PyProperty_Type) != 0;
  return kind == &PyProperty_Type || (derived && IsNativeDefault(reads_.LookupInType(kind, N().get), N().get));
}

// A data descriptor is asked before the object's own attributes, if it can be asked.
bool AttributeReads::GoesFirst(BorrowedRef descriptor) {
  if (!IsDataDescriptor(descriptor)) return false;
  reads_.LookupInType(descriptor.type(), "__get__");  // guarded: it may be given one
  return descriptor.type()->tp_descr_get != nullptr;
}

Value AttributeReads::GenericGetAttr(Activation& act, ValueView owner, BorrowedRef name, bool suppress_missing) {
  PyTypeObject* type = owner.object.type();
  Tracked* t = objects_.Find(owner.object);
  if (IsToCome(t)) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject,
                         absl::StrCat("attribute ", Utf8(name), " of a ", type->tp_name, " that is not made yet"));
  }
  BorrowedRef descriptor = made_.IsMade(type) ? reads_.LookupInType(type, name) : FindInClass(reads_, type, name);
  const OverlayWrite* in_class = writes_.FindClassWrite(type, name);  // no descriptor
  if (in_class != nullptr) descriptor = nullptr;
  const bool data = GoesFirst(descriptor);
  const bool hooked = descriptor && !suppress_missing && special_.OwnOf(type, N().getattr);
  const auto bind = [&] {
    const SourceId source = reads_.TypeAttr(type, name);
    return BindDescriptor(act, descriptor, source, owner, type);
  };
  if (data && !hooked) return bind();
  if (data) {
    Value bound = boundary_.Catching(bind);
    if (bound || !PyErr_ExceptionMatches(PyExc_AttributeError)) return bound;
    PyErr_Clear();
    return missing_.CallMissingHook(act, owner, name);
  }
  if (t != nullptr && t->kind != TrackedKind::kInstanceDict) {
    if (std::optional<Value> own = contents_.OwnAttribute(*t, name)) return *std::move(own);
  } else if (PyObject* own = t == nullptr ? frame_ops::RawInstanceAttr(owner.object, name) : nullptr) {
    return Value{Ref::Create(own), kNoSource};
  }
  if (in_class != nullptr) return Value{in_class->value, kNoSource};
  if (descriptor && !hooked) return bind();
  if (descriptor) {
    Value bound = boundary_.Catching(bind);
    if (bound || !PyErr_ExceptionMatches(PyExc_AttributeError)) return bound;
    PyErr_Clear();
    return missing_.CallMissingHook(act, owner, name);
  }
  if (!suppress_missing && special_.OwnOf(type, N().getattr)) return missing_.CallMissingHook(act, owner, name);
  return AttributeError(owner.object, name);
}

Value AttributeReads::BindDescriptor(Activation& act, BorrowedRef descriptor, SourceId source, ValueView owner,
                                     PyTypeObject* type) {
  PyTypeObject* kind = descriptor.type();
  auto* cls = reinterpret_cast<PyObject*>(type);
  if (kind == &PyFunction_Type || kind == LruCacheType()) {
    Value function = objects_.Adopt(descriptor, source);
    return function ? Value{Ref::Steal(PyMethod_New(function.object, owner.object)), kNoSource} : Value();
  }
  if (IsReadAsProperty(kind)) {
    const Ref getter = GetterOf(descriptor);
    const ValueView args[] = {owner};
    if (!getter || getter.get() == Py_None)  // raises, whatever the object is
      return boundary_.Wrap(Ref::Steal(PyProperty_Type.tp_descr_get(descriptor, owner.object, cls)));
    if (!PyFunction_Check(getter.get())) {
      return calls_.CallWith(act, ValueView(getter, kNoSource), args, nullptr, Completion::kPush);
    }
    return calls_.CallFunction(act, objects_.Adopt(getter, reads_.ConstantSource(getter)), args, nullptr,
                               Completion::kPush);
  }
  if (kind == &PyStaticMethod_Type || kind == &PyClassMethod_Type) {
    const Ref function = Ref::Steal(PyObject_GetAttrString(descriptor, "__func__"));
    Value inner = objects_.Adopt(function, reads_.ConstantSource(function));
    if (!inner || kind == &PyStaticMethod_Type) return inner;
    const Value self = objects_.Adopt(cls, reads_.ConstantSource(cls));
    return self ? Value{Ref::Steal(PyMethod_New(inner.object, self.object)), kNoSource} : Value();
  }
  if (kind == &PyMemberDescr_Type) return ReadMember(descriptor, owner, type);
  if (kind == &PyGetSetDescr_Type) return ReadGetSet(descriptor, owner, type);
  if (kind->tp_descr_get == nullptr) return objects_.Adopt(descriptor, source);
  Tracked* const t = objects_.Find(owner.object);
  if (kind == TupleGetterType() && t != nullptr && t->kind == TrackedKind::kTuple) {
    const Ref parts = Ref::Steal(PyObject_CallMethod(descriptor, "__reduce__", nullptr));  // (type, (index, doc))
    if (!parts) return Value();
    const ValueView index(PyTuple_GET_ITEM(PyTuple_GET_ITEM(parts.get(), 1), 0), kNoSource);
    if (std::optional<Value> item = contents_.OneItem(*t, index)) return *std::move(item);   // past a __getitem__
    return Value{Ref::Steal(kind->tp_descr_get(descriptor, owner.object, cls)), kNoSource};  // raises
  }
  const bool binds = kind == &PyMethodDescr_Type || kind == &PyWrapperDescr_Type || kind == &PyClassMethodDescr_Type;
  if (binds || (t == nullptr && !IsPythonClass(kind))) {  // what else C code binds
    return Value{Ref::Steal(kind->tp_descr_get(descriptor, owner.object, cls)), kNoSource};
  }
  const BorrowedRef get = reads_.LookupInType(kind, "__get__");
  if (!IsPythonFunction(get)) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, absl::StrCat("a descriptor of type ", kind->tp_name));
  }
  const Value self = objects_.Adopt(descriptor, source);
  if (!self) return Value();
  const Value owner_class = objects_.Adopt(cls, reads_.ConstantSource(cls));
  if (!owner_class) return Value();
  const ValueView args[] = {self, owner, owner_class};
  return calls_.CallFunction(act, objects_.Adopt(get, reads_.ConstantSource(get)), args, nullptr, Completion::kPush);
}

// An attribute that C code computes: __class__, __dict__, the fields of a function, what a container says of itself.
Value AttributeReads::ReadGetSet(BorrowedRef descriptor, ValueView owner, PyTypeObject* type) {
  auto* cls = reinterpret_cast<PyObject*>(type);
  PyObject* name = reinterpret_cast<PyGetSetDescrObject*>(descriptor.get())->d_common.d_name;
  if (PyUnicode_Compare(name, N().klass) == 0) return objects_.Adopt(cls, reads_.ConstantSource(cls));
  const auto read = [&] { return Ref::Steal(PyGetSetDescr_Type.tp_descr_get(descriptor, owner.object, cls)); };
  const bool is_dict = PyUnicode_Compare(name, N().dict) == 0;
  Tracked* t = objects_.Find(owner.object);
  if (t == nullptr) {
    Ref result = read();
    if (result && is_dict) objects_.NoteFreshDict(result, owner.object);
    return Value{std::move(result), kNoSource};
  }
  if (t->kind == TrackedKind::kCell) {  // cell_contents
    if (std::optional<Value> contents = contents_.InCell(*t)) return *std::move(contents);
    PyErr_SetString(PyExc_ValueError, "Cell is empty");
    return Value();
  }
  if (ObjectMemberOf(descriptor)) return ReadMember(descriptor, owner, type);
  Tracked& holder = t->holder_of_attributes();
  if (is_dict && (holder.kind == TrackedKind::kInstance || t->kind == TrackedKind::kFunction)) {
    return Value{objects_.InstanceDictOf(holder)->representative, kNoSource};
  }
  if (t->kind == TrackedKind::kFunction && IsPlainField(Utf8(name).c_str())) {
    if (IsAnnotations(name) && !MayAskForAnnotations(owner.object)) {
      return breaks_.Break(GraphBreakKind::kOpaqueObject, "annotations that are computed now");
    }
    const Ref result = read();
    return result ? objects_.Adopt(result, reads_.sources().Intern(SourceKind::kFunctionField, t->source, 0, name))
                  : Value();
  }
  const bool of_items = reinterpret_cast<PyDescrObject*>(descriptor.get())->d_type == DequeType();
  const bool read_in_shadow = t->is_container() && (t->attributes == nullptr || of_items);
  if (read_in_shadow || t->kind == TrackedKind::kCallable) return boundary_.Wrap(read());
  return breaks_.Break(GraphBreakKind::kOpaqueObject, absl::StrCat("attribute ", Utf8(name), " of ", type->tp_name));
}

Value AttributeReads::ReadMember(BorrowedRef descriptor, ValueView owner, PyTypeObject* type) {
  Tracked* t = objects_.Find(owner.object);
  const auto read = [&](BorrowedRef from) {
    return Ref::Steal(descriptor.type()->tp_descr_get(descriptor, from, reinterpret_cast<PyObject*>(type)));
  };
  if (t == nullptr || IsRegularExpression(owner.object)) return boundary_.Wrap(read(owner.object));
  PyObject* name = PyDescr_NAME(descriptor.get());
  const std::optional<ObjectMember> member = ObjectMemberOf(descriptor);
  if (OverlayWrite* w = t->holder_of_attributes().FindWrite(descriptor)) {
    if (!w->value && member && member->none_if_empty) return Value{Ref::Create(Py_None), kNoSource};
    if (!w->value) {
      frame_ops::SetEmptySlotError(owner.object, name);
      SetMissingAttribute(owner.object, name);
    }
    return Value{w->value, kNoSource};
  }
  if (!member) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, absl::StrCat("attribute ", Utf8(name), " of ", type->tp_name));
  }
  Ref held = read(t->original);
  const SourceId source = reads_.sources().Intern(SourceKind::kSlotAttr, t->source, 0, descriptor);
  const bool empty =
      *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(t->original.get()) + member->offset) == nullptr;
  if (!empty) return objects_.Adopt(held, source);
  reads_.AddGuard(source, GuardKind::kNull, nullptr);
  if (!held) SetMissingAttribute(owner.object, name);
  return Value{std::move(held), kNoSource};  // None, or the AttributeError is set
}

Value AttributeReads::LoadMethod(Activation& act, ValueView owner, BorrowedRef name, Value* self) {
  PyTypeObject* type = owner.object.type();
  const bool plain = !IsFakeTensor(owner.object) && !IsToCome(objects_.Find(owner.object)) &&
                     !PyModule_Check(owner.object.get()) && !PyType_Check(owner.object.get()) &&
                     type != &PySuper_Type && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
  if (plain && !special_.OwnOf(type, N().getattribute)) {
    BorrowedRef found = reads_.LookupInType(type, name);
    if (IsPythonFunction(found) && writes_.FindClassWrite(type, name) == nullptr) {
      Tracked* t = objects_.Find(owner.object);
      PyObject* const of_fresh = t == nullptr ? frame_ops::RawInstanceAttr(owner.object, name) : nullptr;
      if (of_fresh != nullptr) return Value{Ref::Create(of_fresh), kNoSource};
      std::optional<Value> own = t != nullptr ? contents_.OwnAttribute(*t, name) : std::nullopt;
      if (own) return *std::move(own);
      Value function = objects_.Adopt(found, reads_.TypeAttr(type, name));
      if (function) *self = Value{Ref::Create(owner.object), owner.source};
      return function;
    }
  }
  if (const BorrowedRef method = CMethodOf(owner, name)) {
    PyTuple_Check(owner.object.get()) ? reads_.Move(owner) : reads_.Consume(owner);
    *self = Value{Ref::Create(owner.object), owner.source};
    return Value{Ref::Create(method), kNoSource};
  }
  return LoadAttr(act, owner, name);
}

// Of an object whose value is all there is to it or that was made here, and that has no attributes but its type's; a
// bound method would be made only to be taken apart. Null: anything else.
BorrowedRef AttributeReads::CMethodOf(ValueView owner, BorrowedRef name) const {
  PyTypeObject* type = owner.object.type();
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 || type->tp_getattro != PyObject_GenericGetAttr ||
      type->tp_dictoffset != 0 || IsFakeTensor(owner.object) || objects_.Find(owner.object) != nullptr) {
    return nullptr;
  }
  PyObject* found = frame_ops::TypeLookup(type, name);
  return found != nullptr && Py_IS_TYPE(found, &PyMethodDescr_Type) ? found : nullptr;
}

Value AttributeReads::ModuleGetAttr(Activation& act, ValueView owner, BorrowedRef name) {
  PyTypeObject* type = owner.object.type();
  const bool plain = type == &PyModule_Type;
  const BorrowedRef of_type = plain ? BorrowedRef(frame_ops::TypeLookup(type, name)) : reads_.LookupInType(type, name);
  if (IsDataDescriptor(of_type)) return plain ? OwnObjectOfModule(owner, name) : GenericGetAttr(act, owner, name, true);
  PyObject* dict = PyModule_GetDict(owner.object);
  const OverlayWrite* written = writes_.FindGlobal(dict, name);
  if (written != nullptr && written->value) return Value{written->value, kNoSource};
  PyObject* found = written != nullptr ? nullptr : PyDict_GetItemWithError(dict, name);
  const SourceId module = reads_.ConstantSource(owner.object);
  if (found != nullptr) return objects_.Adopt(found, reads_.sources().Intern(SourceKind::kModuleAttr, module, 0, name));
  if (written == nullptr) reads_.AddGuard(reads_.ConstantSource(dict), GuardKind::kLacksKey, name);
  if (of_type) return plain ? OwnObjectOfModule(owner, name) : GenericGetAttr(act, owner, name, true);
  PyObject* fallback = PyDict_GetItemWithError(dict, N().getattr);
  if (fallback == nullptr) reads_.AddGuard(reads_.ConstantSource(dict), GuardKind::kLacksKey, N().getattr);
  if (IsPythonFunction(fallback)) {
    const ValueView args[] = {ValueView(name, kNoSource)};
    return calls_.CallFunction(
        act, objects_.Adopt(fallback, reads_.sources().Intern(SourceKind::kModuleAttr, module, 0, N().getattr)), args,
        nullptr, Completion::kPush);
  }
  return OwnObjectOfModule(owner, name);  // raises the AttributeError
}

// What its type gives: __dict__, __annotations__ …
Value AttributeReads::OwnObjectOfModule(ValueView module, BorrowedRef name) {
  Ref other = Ref::Steal(PyObject_GetAttr(module.object, name));
  const bool bound = other && Py_IS_TYPE(other.get(), private_api::MethodWrapperType());
  if (other && !bound && PyUnicode_Compare(name, N().klass) != 0) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, absl::StrCat("attribute ", Utf8(name), " of a module"));
  }
  return boundary_.Wrap(std::move(other));
}

// What a metaclass computes before the class's own attributes are looked at.
Value AttributeReads::FieldOfClass(Activation& act, ValueView owner, BorrowedRef name, BorrowedRef in_meta) {
  auto* type = reinterpret_cast<PyTypeObject*>(owner.object.get());
  PyTypeObject* meta = Py_TYPE(type);
  if (in_meta.type() == &PyProperty_Type || (in_meta.type()->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) {
    return BindDescriptor(act, in_meta, reads_.ConstantSource(in_meta), owner, meta);
  }
  if (!IsPlainField(Utf8(name).c_str())) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, absl::StrCat("attribute ", Utf8(name), " of a class"));
  }
  if (IsAnnotations(name) && !MayAskForAnnotations(owner.object)) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "annotations that are computed now");
  }
  const std::string field = Utf8(name);
  if (field == "__mro__") GuardClassOrder(reads_, type);
  if (field == "__bases__" || field == "__base__") GuardBases(reads_, type);
  Ref result = Ref::Steal(PyObject_GetAttr(owner.object, name));
  if (result && (field == "__name__" || field == "__qualname__") && IsPythonClass(type)) {
    return objects_.Adopt(
        result, reads_.sources().Intern(SourceKind::kFunctionField, reads_.ConstantSource(owner.object), 0, name));
  }
  if (!result || IsLeaf(result)) {
    if (field == "__module__" || field == "__doc__") reads_.LookupInType(type, name);
    return Value{std::move(result), kNoSource};
  }
  if (made_.IsMade(type) && !PyType_Check(result.get())) return Value{std::move(result), kNoSource};
  return objects_.Adopt(result, reads_.ConstantSource(result));
}

Value AttributeReads::TypeGetAttr(Activation& act, ValueView owner, BorrowedRef name) {
  auto* type = reinterpret_cast<PyTypeObject*>(owner.object.get());
  PyTypeObject* meta = Py_TYPE(type);
  if (meta->tp_getattro != PyType_Type.tp_getattro && special_.OwnOf(meta, N().getattribute)) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "a metaclass with __getattribute__");
  }
  BorrowedRef in_meta = reads_.LookupInType(meta, name);
  if (writes_.FindClassWrite(meta, name) == nullptr && GoesFirst(in_meta)) {
    return FieldOfClass(act, owner, name, in_meta);
  }
  BorrowedRef found = made_.IsMade(type) ? reads_.LookupInType(type, name) : FindInClass(reads_, type, name);
  if (const OverlayWrite* w = writes_.FindClassWrite(type, name)) return Value{w->value, kNoSource};
  if (found) {
    const SourceId source =
        reads_.sources().Intern(SourceKind::kTypeAttr, reads_.ConstantSource(owner.object), 0, name);
    PyTypeObject* kind = found.type();
    if (kind == &PyFunction_Type || kind == &PyProperty_Type || kind->tp_descr_get == nullptr) {
      return objects_.Adopt(found, source);
    }
    if (kind == &PyStaticMethod_Type || kind == &PyClassMethod_Type) {
      return BindDescriptor(act, found, source, owner, type);
    }
    if ((kind->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) {
      Ref bound = Ref::Steal(kind->tp_descr_get(found, nullptr, owner.object));
      if (bound.get() == found.get()) return objects_.Adopt(found, source);
      return Value{std::move(bound), kNoSource};
    }
    BorrowedRef get = reads_.LookupInType(kind, "__get__");
    if (!IsPythonFunction(get)) {
      return breaks_.Break(GraphBreakKind::kOpaqueObject, absl::StrCat("a descriptor of type ", kind->tp_name));
    }
    const Value self = objects_.Adopt(found, source);
    if (!self) return Value();
    const ValueView args[] = {self, ValueView(Py_None, kNoSource), owner};
    return calls_.CallFunction(act, objects_.Adopt(get, reads_.ConstantSource(get)), args, nullptr, Completion::kPush);
  }
  if (const OverlayWrite* w = writes_.FindClassWrite(meta, name)) return Value{w->value, kNoSource};
  if (in_meta) return BindDescriptor(act, in_meta, reads_.ConstantSource(in_meta), owner, meta);
  if (const BorrowedRef fallback = special_.OwnOf(meta, N().getattr)) {
    const ValueView args[] = {ValueView(name, kNoSource)};
    return special_.Call(act, owner, fallback, N().getattr, args, Completion::kPush);
  }
  return boundary_.Wrap(Ref::Steal(PyObject_GetAttr(owner.object, name)));
}

}  // namespace framefuse
