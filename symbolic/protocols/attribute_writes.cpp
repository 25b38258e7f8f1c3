#include "symbolic/protocols/attribute_writes.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "guards/leaf/object_members.h"
#include "guards/made_reads.h"
#include "symbolic/calls/call_evaluator.h"
#include "symbolic/calls/class_statements.h"
#include "symbolic/journals/backward_phase.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/class_numbers.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/fx_journal.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/made_classes.h"
#include "symbolic/journals/made_in_backward.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_contents.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/protocols/attribute_reads.h"
#include "symbolic/protocols/special_methods.h"
#include "symbolic/protocols/tensor_attributes.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/descriptors.h"
#include "symbolic/tracing/sharded_tensors.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

BorrowedRef SetattrName() {
  static PyObject* const name = PyUnicode_InternFromString("__setattr__");
  return name;
}

BorrowedRef DelattrName() {
  static PyObject* const name = PyUnicode_InternFromString("__delattr__");
  return name;
}

}  // namespace

AttributeWrites::AttributeWrites(Journals& journals, ClassStatements& class_statements, SpecialMethods& special,
                                 AttributeReads& attributes, TensorAttributes& tensor_attributes, CallEvaluator& calls)
    : tracer_(journals.tracer()),
      fx_(journals.fx()),
      breaks_(journals.breaks()),
      backward_(journals.backward()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      contents_(journals.contents()),
      made_(journals.made()),
      class_statements_(class_statements),
      special_(special),
      attributes_(attributes),
      tensor_attributes_(tensor_attributes),
      calls_(calls) {}

bool AttributeWrites::StoreAttr(Activation& act, ValueView owner, BorrowedRef name, ValueView value) {
  if (!MadeInBackward::Has(owner.object) && !backward_.MayWrite()) return false;
  reads_.Consume(owner);
  PyTypeObject* type = owner.object.type();
  if (IsFakeTensor(owner.object)) {
    reads_.Move(value);
    if (!IsDataDescriptor(reads_.LookupInType(type, name))) return tensor_attributes_.SetOwn(owner, name, value);
    if (tracing::IsSharded(owner.object)) {
      return breaks_.BreakFalse(GraphBreakKind::kUnsupportedWrite,
                                absl::StrCat("attribute ", Utf8(name), " of a DTensor"));
    }
    // Where the write changes nothing now, it may on another call.
    const Tracked* input = objects_.Find(owner.object);
    if (input != nullptr && PyUnicode_CompareWithASCIIString(name, "grad") == 0)
      tensor_attributes_.GuardGradient(*input, Py_None);
    tracer_.AskLeaves();
    FxCall call(fx_, {owner.object});
    const int done = boundary_.Run([&] { return PyObject_SetAttr(owner.object, name, value.object); });
    return boundary_.Check() && done == 0 && breaks_.Journalled(call.ConfirmWrite());
  }
  if (made_.IsMade(owner.object)) return class_statements_.SetAttr(owner, name, value);
  if (PyType_Check(owner.object.get())) return SetClassAttr(owner, name, value);
  const bool of_module = PyModule_Check(owner.object.get()) != 0;
  if (of_module && !special_.OwnOf(type, SetattrName()) && !IsDataDescriptor(reads_.LookupInType(type, name))) {
    return breaks_.BreakFalse(GraphBreakKind::kUnsupportedWrite,
                              absl::StrCat("attribute ", Utf8(name), " of a ", type->tp_name));
  }
  if (const BorrowedRef setter = special_.OwnOf(type, SetattrName())) {
    const ValueView args[] = {ValueView(name, kNoSource), value};
    return static_cast<bool>(special_.Call(act, owner, setter, SetattrName(), args, Completion::kDrop));
  }
  return GenericSetAttr(act, owner, name, value);
}

// A plain value under a plain name: no protocol of the language is looked up under it, and nothing binds it when read.
bool AttributeWrites::SetClassAttr(ValueView cls, BorrowedRef name, ValueView value) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls.object.get());
  PyTypeObject* meta = Py_TYPE(type);
  const auto binds = [&](BorrowedRef object) {
    return object && (reads_.LookupInType(object.type(), "__get__") || reads_.LookupInType(object.type(), "__set__") ||
                      reads_.LookupInType(object.type(), "__delete__"));
  };
  const std::string text = Utf8(name);
  const BorrowedRef setter = reads_.LookupInType(meta, SetattrName());
  const bool plain = IsPythonClass(type) && setter && Py_IS_TYPE(setter.get(), &PyWrapperDescr_Type) &&
                     meta->tp_setattro == PyType_Type.tp_setattro && !absl::StartsWith(text, "__") &&
                     !binds(reads_.LookupInType(meta, name)) && !binds(FindInClass(reads_, type, name)) &&
                     !binds(value.object);
  Tracked* t = plain ? objects_.Find(objects_.Adopt(cls.object, reads_.ConstantSource(cls.object)).object) : nullptr;
  if (t == nullptr) {
    return breaks_.BreakFalse(GraphBreakKind::kUnsupportedWrite,
                              absl::StrCat("attribute ", text, " of a ", meta->tp_name));
  }
  reads_.Move(value);
  return writes_.WriteClassAttr(*t, name, Ref::Create(value.object));
}

bool AttributeWrites::DeleteAttr(Activation& act, ValueView owner, BorrowedRef name) {
  if (!MadeInBackward::Has(owner.object) && !backward_.MayWrite()) return false;
  reads_.Consume(owner);
  PyTypeObject* type = owner.object.type();
  if (made_.IsMade(owner.object)) return class_statements_.SetAttr(owner, name, ValueView());
  if (IsFakeTensor(owner.object) && !IsDataDescriptor(reads_.LookupInType(type, name))) {
    return tensor_attributes_.SetOwn(owner, name, ValueView());
  }
  if (IsFakeTensor(owner.object) || PyModule_Check(owner.object.get()) || PyType_Check(owner.object.get())) {
    return breaks_.BreakFalse(GraphBreakKind::kUnsupportedWrite, absl::StrCat("del of attribute ", Utf8(name)));
  }
  if (const BorrowedRef deleter = special_.OwnOf(type, DelattrName())) {
    const ValueView args[] = {ValueView(name, kNoSource)};
    return static_cast<bool>(special_.Call(act, owner, deleter, DelattrName(), args, Completion::kDrop));
  }
  return GenericSetAttr(act, owner, name, ValueView());
}

bool AttributeWrites::SetThroughDescriptor(Activation& act, BorrowedRef descriptor, ValueView owner, BorrowedRef name,
                                           ValueView value) {
  if (descriptor.type() == &PyProperty_Type) {
    Ref setter = Ref::Steal(PyObject_GetAttrString(descriptor, value.object ? "fset" : "fdel"));
    if (IsPythonFunction(setter)) {
      const ValueView args[] = {owner, value};
      const absl::Span<const ValueView> used = absl::MakeSpan(args, value.object ? 2 : 1);
      return static_cast<bool>(calls_.CallFunction(act, objects_.Adopt(setter, reads_.ConstantSource(setter)), used,
                                                   nullptr, Completion::kDrop));
    }
    if (!setter || setter.get() == Py_None) {  // raises, whatever the object is
      PyProperty_Type.tp_descr_set(descriptor, owner.object, value.object);
      return false;
    }
    return breaks_.BreakFalse(GraphBreakKind::kUnsupportedWrite, "a property whose setter is no Python function");
  }
  BorrowedRef set = reads_.LookupInType(descriptor.type(), value.object ? "__set__" : "__delete__");
  if (IsPythonFunction(set)) {
    const Value self = objects_.Adopt(descriptor, reads_.ConstantSource(descriptor));
    if (!self) return false;
    const ValueView args[] = {self, owner, value};
    const absl::Span<const ValueView> used = absl::MakeSpan(args, value.object ? 3 : 2);
    return static_cast<bool>(
        calls_.CallFunction(act, objects_.Adopt(set, reads_.ConstantSource(set)), used, nullptr, Completion::kDrop));
  }
  return breaks_.BreakFalse(
      GraphBreakKind::kUnsupportedWrite,
      absl::StrCat("attribute ", Utf8(name), " with a descriptor of type ", descriptor.type()->tp_name));
}

bool AttributeWrites::GenericSetAttr(Activation& act, ValueView owner, BorrowedRef name, ValueView value) {
  PyTypeObject* type = owner.object.type();
  Tracked* t = objects_.Find(owner.object);
  BorrowedRef descriptor = reads_.LookupInType(type, name);
  const bool by_property = descriptor && descriptor.type() == &PyProperty_Type;
  if (by_property || (IsDataDescriptor(descriptor) && (descriptor.type()->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0)) {
    return SetThroughDescriptor(act, descriptor, owner, name, value);
  }
  if (value.object) reads_.Move(value);
  if (t == nullptr) {  // fresh: the write goes to the object itself
    return (value.object ? PyObject_GenericSetAttr(owner.object, name, value.object)
                         : PyObject_GenericSetAttr(owner.object, name, nullptr)) == 0;
  }
  if (IsThreadLocal(type) && value.object) {
    Tracked* const dict = contents_.ThreadDictOf(*t);
    return dict != nullptr && contents_.WriteDictItem(*dict, ValueView(name, kNoSource), value);
  }
  t = &t->holder_of_attributes();
  if (IsThreadLocal(type)) {
    return breaks_.BreakFalse(GraphBreakKind::kUnsupportedWrite, absl::StrCat("del of attribute ", Utf8(name)));
  }
  if (t->kind == TrackedKind::kCell && descriptor && descriptor.type() == &PyGetSetDescr_Type) {  // cell_contents
    return writes_.Write(*t, nullptr, Ref::Create(value.object));
  }
  const bool holds_any = t->kind == TrackedKind::kInstance || t->kind == TrackedKind::kFunction;
  if (!holds_any || (t->kind == TrackedKind::kFunction && IsDataDescriptor(descriptor))) {
    return breaks_.BreakFalse(GraphBreakKind::kUnsupportedWrite,
                              absl::StrCat("attribute ", Utf8(name), " of ", type->tp_name));
  }
  if (type->tp_finalize != nullptr || reads_.LookupInType(type, "__del__")) {
    return breaks_.BreakFalse(GraphBreakKind::kUnsupportedWrite,
                              absl::StrCat("a write to ", type->tp_name, ", which has __del__"));
  }
  if (IsDataDescriptor(descriptor)) {
    const bool is_switch = IsSwitchOfFunction(descriptor) && value.object && PyBool_Check(value.object.get());
    if (descriptor.type() != &PyMemberDescr_Type && !ObjectMemberOf(descriptor) && !is_switch) {
      return breaks_.BreakFalse(GraphBreakKind::kUnsupportedWrite,
                                absl::StrCat("attribute ", Utf8(name), " of ", type->tp_name));
    }
    if (!value.object &&
        !attributes_.ReadMember(descriptor, owner, type)) {  // nothing to delete, which has a text of its own
      if (PyErr_ExceptionMatches(PyExc_AttributeError) != 0) PyErr_SetObject(PyExc_AttributeError, name);
      return false;
    }
    return writes_.Write(*t, descriptor, Ref::Create(value.object));
  }
  if (!frame_ops::HasInstanceAttrs(t->original)) {
    return PyObject_GenericSetAttr(owner.object, name, value.object) == 0;  // raises: no such attribute can be set
  }
  const std::optional<Value> deleted = value.object ? std::nullopt : contents_.OwnAttribute(*t, name);
  if (deleted && !*deleted) return false;
  if (!value.object && !deleted) {
    static_cast<void>(AttributeError(owner.object, name));
    SetMissingAttribute(Py_None, Py_None);
    return false;
  }
  return writes_.Write(*t, name, Ref::Create(value.object));
}

}  // namespace framefuse
