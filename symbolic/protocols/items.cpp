#include "symbolic/protocols/items.h"

#include <optional>

#include "frame_eval/hook.h"
#include "symbolic/calls/call_evaluator.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/journals/array_writes.h"
#include "symbolic/journals/backward_phase.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/elements.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/fx_journal.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/made_in_backward.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_contents.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/protocols/number_indices.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/call_rules.h"
#include "symbolic/rules/native_items.h"
#include "symbolic/rules/number_arrays.h"
#include "symbolic/rules/operator_functions.h"

namespace framefuse {
namespace {

// list[int], collections.abc.Sequence[int]: C code that keeps the class and its arguments.
bool MakesGenericAlias(BorrowedRef class_getitem) {
  if (!class_getitem) return false;
  if (class_getitem.type() == &PyClassMethodDescr_Type) return true;
  if (class_getitem.type() != &PyClassMethod_Type) return false;
  const Ref function = Ref::Steal(PyObject_GetAttrString(class_getitem, "__func__"));
  return function.get() == reinterpret_cast<PyObject*>(&Py_GenericAliasType);
}

// The special forms and aliases of the module typing.
bool IsOfTyping(PyTypeObject* type) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return false;
  PyObject* module = PyDict_GetItemString(frame_ops::TypeDict(type), "__module__");
  return module != nullptr && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "typing") == 0;
}

// What typing.Generic gives its classes: from 3.12 on it is a class of C code, which calls that of typing.
bool IsGetItemOfGeneric(BorrowedRef class_getitem) {
  if (!class_getitem) return false;
  if (class_getitem.type() == &PyClassMethodDescr_Type) {
    return IsGeneric(reinterpret_cast<PyDescrObject*>(class_getitem.get())->d_type);
  }
  if (class_getitem.type() != &PyClassMethod_Type) return false;
  const Ref function = Ref::Steal(PyObject_GetAttrString(class_getitem, "__func__"));
  return function && PyFunction_Check(function.get()) &&
         IsTypingCode(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function.get())));
}

}  // namespace

Items::Items(Journals& journals, NativeProtocols& native, Protocols& meaning, CallEvaluator& calls)
    : fx_(journals.fx()),
      breaks_(journals.breaks()),
      backward_(journals.backward()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      contents_(journals.contents()),
      arguments_(journals.arguments()),
      native_(native),
      meaning_(meaning),
      calls_(calls),
      sizes_(journals),
      keys_(journals),
      arrays_(journals),
      tracer_(journals.tracer()) {}

Value Items::GetLength(Activation& act, ValueView v) {
  if (std::optional<Value> size = sizes_.LengthOf(v)) return *std::move(size);
  if (PyUnicode_CheckExact(v.object.get())) {
    reads_.Consume(v);
    return Value{Ref::Steal(PyLong_FromSsize_t(PyUnicode_GET_LENGTH(v.object.get()))), kNoSource};
  }
  Tracked* t = objects_.Find(v.object);
  if (t != nullptr && t->has_shadow() && contents_.HasNative(*t, "__len__")) {
    if (Ref symbolic = contents_.SymbolicLength(*t)) return Value{std::move(symbolic), kNoSource};
    const std::int64_t size = contents_.Length(*t);
    if (size < 0) return Value();
    return Value{Ref::Steal(PyLong_FromLongLong(size)), kNoSource};
  }
  const bool sized = arrays_.HasKnownSizes(v.object);
  if (!sized && !arguments_.PrepareOuter(v)) return Value();
  BorrowedRef method;
  if ((v.object.type()->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) method = reads_.LookupInType(v.object.type(), "__len__");
  if (method && PyFunction_Check(method.get())) {
    const ValueView args[] = {v};
    Value r = calls_.CallFunction(act, objects_.Adopt(method, reads_.ConstantSource(method)), args, nullptr,
                                  Completion::kCallback);
    // PyObject_Size checks the sign and the type; only plain ints pass here.
    if (!r) return r;
    if (PyLong_CheckExact(r.object.get())) {
      int overflow = 0;
      const long long length = PyLong_AsLongLongAndOverflow(r.object, &overflow);
      if (overflow == 0 && length >= 0) return r;
    }
  }
  const Py_ssize_t size = boundary_.Run([&] { return PyObject_Size(v.object); });
  if (!boundary_.Check() || size < 0) return Value();
  return Value{Ref::Steal(PyLong_FromSsize_t(size)), kNoSource};
}

// A class that typing may keep: not one of this attempt.
bool Items::IsFromOutside(BorrowedRef cls) const {
  return PyType_Check(cls.get()) && (objects_.Find(cls) != nullptr ||
                                     (reinterpret_cast<PyTypeObject*>(cls.get())->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0);
}

// Classes of which typing asks nothing that could differ later.
bool Items::IsClassOrClasses(BorrowedRef key) const {
  const auto is_class = [this](PyObject* o) { return PyType_CheckExact(o) && IsFromOutside(o); };
  if (!PyTuple_CheckExact(key.get())) return is_class(key);
  bool all = PyTuple_GET_SIZE(key.get()) > 0;
  for (Py_ssize_t i = 0; all && i < PyTuple_GET_SIZE(key.get()); ++i) all = is_class(PyTuple_GET_ITEM(key.get(), i));
  return all;
}

// Parts of it that were made here are no more than lists and tuples.
bool Items::IsSameLater(BorrowedRef key) const {
  if (IsLeaf(key)) return !tracer_.numbers().IsSymbolic(key);
  if (!PyTuple_CheckExact(key.get()) && !PyList_CheckExact(key.get())) {
    return IsFromOutside(key) || objects_.Find(key) != nullptr;
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(key.get()); ++i) {
    if (!IsSameLater(PySequence_Fast_GET_ITEM(key.get(), i))) return false;
  }
  return true;
}

Value Items::ClassItem(Activation& act, ValueView cls, ValueView key) {
  BorrowedRef in_meta = reads_.LookupInType(cls.object.type(), "__getitem__");
  if (in_meta && PyFunction_Check(in_meta.get())) {
    const ValueView args[] = {cls, key};
    return calls_.CallFunction(act, objects_.Adopt(in_meta, reads_.ConstantSource(in_meta)), args, nullptr,
                               Completion::kPush);
  }
  static PyObject* const name = PyUnicode_InternFromString("__class_getitem__");
  const BorrowedRef maker = reads_.LookupInType(reinterpret_cast<PyTypeObject*>(cls.object.get()), name);
  if (IsGetItemOfGeneric(maker) && !writes_.has_class_writes() && IsFromOutside(cls.object) &&
      IsClassOrClasses(key.object)) {
    static PyObject* const parameters = PyUnicode_InternFromString("__parameters__");
    reads_.LookupInType(reinterpret_cast<PyTypeObject*>(cls.object.get()), parameters);
    reads_.Consume(key);
    const HookScope native(HookMode::kOff);
    const Ref alias = Ref::Steal(PyObject_GetItem(cls.object, key.object));
    if (!boundary_.Check() || !alias) return Value();
    return objects_.Adopt(alias, reads_.ConstantSource(alias));  // typing keeps it, and gives it again
  }
  if (MakesGenericAlias(maker)) {
    if (!arguments_.PrepareNative(key)) return Value();
    return boundary_.Wrap(Ref::Steal(boundary_.Run([&] { return PyObject_GetItem(cls.object, key.object); })));
  }
  if (maker && Py_IS_TYPE(maker.get(), &PyClassMethod_Type)) {
    const Value bound = boundary_.Catching([&] { return meaning_.LoadAttr(act, cls, name); });
    const ValueView args[] = {key};
    return bound ? calls_.CallWith(act, bound, args, nullptr, Completion::kPush) : Value();
  }
  return breaks_.Break(GraphBreakKind::kUnlistedCallable, "subscript of a class");
}

// A tuple's items go on in another one, where they have no source: a symbolic number is known by itself.
bool Items::MoveItems(Tracked& tuple) {
  if (!contents_.Realise(tuple, false)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.representative.get()); ++i) {
    const BorrowedRef item(PyTuple_GET_ITEM(tuple.representative.get(), i));
    if (!IsLeaf(item) || tracer_.numbers().IsSymbolic(item)) continue;
    reads_.Consume(ValueView(item, reads_.sources().Item(tuple.source, Ref::Steal(PyLong_FromSsize_t(i)))));
  }
  return true;
}

// What a defaultdict made of nothing is in it now.
bool Items::KeepMade() {
  const std::uint64_t before = writes_.count();
  return writes_.ReplaceGrown() && (writes_.count() == before || backward_.MayWrite());
}

namespace {
// By a number that guards tell from the other keys. Nothing: another way tells, or it is not there.
std::optional<Value> FindKept(SymbolicKeys& keys, ValueView container, ValueView key) {
  BorrowedRef contents;
  const Truth kept = keys.Keeps(container, key, &contents);
  if (kept == Truth::kError) return Value();
  PyObject* found = kept == Truth::kTrue ? PyDict_GetItemWithError(contents, key.object) : nullptr;
  if (found == nullptr) return std::nullopt;
  return Value{Ref::Create(found), kNoSource};
}
}  // namespace

namespace {
// A tuple that is found by its value, as re keeps its patterns by: (str, "a+", 0).
bool IsKeyWithTypes(BorrowedRef key) {
  if (!PyTuple_CheckExact(key.get())) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key.get()); ++i) {
    const BorrowedRef part = PyTuple_GET_ITEM(key.get(), i);
    const bool type = part.type() == &PyType_Type &&
                      (reinterpret_cast<PyTypeObject*>(part.get())->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0;
    if (!type && !IsTextOrNumber(part)) return false;
  }
  return true;
}

// Nothing: what else is there tells, too.
std::optional<Value> ItemByItsKey(ObjectContents& contents, Tracked& t, ValueView key, ReadJournal& reads,
                                  NativeArguments& arguments) {
  if (IsLeaf(key.object)) {
    reads.Consume(key);
  } else if (t.kind == TrackedKind::kDict && IsKeyOfItsOwn(key.object)) {
    return contents.OneItem(t, key);
  } else if (t.kind != TrackedKind::kDict || !IsKeyWithTypes(key.object)) {
    return std::nullopt;
  } else if (!arguments.PrepareNative(key)) {
    return Value();
  }
  return contents.OneItem(t, key);
}
}  // namespace

Value Items::GetItem(Activation& act, ValueView container, ValueView key) {
  Tracked* t = objects_.Find(container.object);
  if (const std::optional<Ref> plain = keys_.PlainKey(container, key, false)) {
    return *plain ? GetItem(act, container, ValueView(*plain, kNoSource)) : Value();
  }
  const bool by_keys = t == nullptr || (t->realised && contents_.HasNative(*t, "__getitem__"));
  if (std::optional<Value> kept = by_keys ? FindKept(keys_, container, key) : std::nullopt) return *std::move(kept);
  const bool native_items = t != nullptr && t->has_shadow() && contents_.HasNative(*t, "__getitem__");
  if (native_items) {
    if (std::optional<Value> found = ItemByItsKey(contents_, *t, key, reads_, arguments_)) return *std::move(found);
  }
  if (native_items && IsFakeTensor(key.object)) {
    if (std::optional<Value> found = contents_.ItemOfTensor(*t, key.object)) return *std::move(found);
  }
  if (std::optional<Value> part = arrays_.Item(container, key)) return *std::move(part);
  if (PyType_Check(container.object.get())) return ClassItem(act, container, key);
  PyTypeObject* type = container.object.type();
  if (t != nullptr && IsOfTyping(type)) {  // Optional[int]: nothing that the program could tell from an earlier one
    reads_.AddGuard(t->source, GuardKind::kIdentity, t->original);
    if (!arguments_.PrepareNative(key)) return Value();
    const HookScope native(HookMode::kOff);
    Value alias = boundary_.Wrap(Ref::Steal(PyObject_GetItem(container.object, key.object)));
    if (!alias || !IsSameLater(key.object)) return alias;
    return objects_.Adopt(alias.object, reads_.ConstantSource(alias.object));  // typing keeps it, and gives it again
  }
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && !IsFakeTensor(container.object)) {
    BorrowedRef method = reads_.LookupInType(type, "__getitem__");
    if (method && PyFunction_Check(method.get())) {
      const ValueView args[] = {container, key};
      return calls_.CallFunction(act, objects_.Adopt(method, reads_.ConstantSource(method)), args, nullptr,
                                 Completion::kPush);
    }
  }
  const bool fake = IsFakeTensor(container.object);
  const bool selects = fake && (!IsLeaf(key.object) || CanSelect(tracer_.numbers(), container.object, key.object));
  if (fake && !selects) reads_.Consume(key);
  const ValueView own_key = key;  // for the journal
  // Its items have guards before another tuple with numbers of torch's stands in its place.
  if (selects && !arguments_.PrepareSubscript(key)) return Value();
  const TorchArguments sized(tracer_.numbers(), absl::MakeConstSpan(&own_key, selects ? 1 : 0));
  if (selects) key = sized.args()[0];
  const bool is_part = native_items && t->kind == TrackedKind::kTuple && PySlice_Check(key.object.get());
  if (is_part ? !MoveItems(*t) : !arguments_.PrepareOuter(container)) return Value();
  if (!selects && !arguments_.PrepareNative(key)) return Value();
  FxCall call(fx_, {container.object, key.object});
  const NumberIndex index = SelectNumbers(tracer_.numbers(), boundary_, container.object, own_key.object);
  if (!boundary_.Check()) return Value();
  const ValueView from = index.tensor ? ValueView(index.tensor, kNoSource) : container;
  const ValueView rest = index.tensor ? ValueView(index.rest, kNoSource) : key;
  Value result = index.selects_all() ? Value{index.tensor, kNoSource}
                                     : boundary_.RunAsLeaf(fake, [&] { return native_.GetItem(act, from, rest); });
  if (!boundary_.Check()) return Value();
  if (IsDefaultDict(container.object) && !KeepMade()) return Value();
  if (result && fake) {
    const BorrowedRef function = NamedOperator("getitem");
    if (!breaks_.Journalled(call.RecordOperator(function, {container.object, own_key.object}, result.object)))
      return Value();
  }
  return result;
}

// Guards tell the key from the others.
bool Items::WriteKept(Tracked* t, BorrowedRef contents, ValueView key, ValueView value) {
  reads_.Move(key);
  if (value.object) reads_.Move(value);
  return (t == nullptr || writes_.Replace(*t)) && SetNativeItem(contents, key.object, value.object);
}

bool Items::SetItem(Activation& act, ValueView container, ValueView key, ValueView value) {
  if (!IsFakeTensor(container.object) && !MadeInBackward::Has(container.object) && !backward_.MayWrite()) return false;
  if (IsArray(container.object)) {
    const ArrayWriter writer{fx_, breaks_, boundary_, objects_, arguments_};
    return static_cast<bool>(writer.Write(NamedOperator("setitem"), {container, key, value}));
  }
  Tracked* t = objects_.Find(container.object);
  const bool of_dict = t != nullptr && (t->kind == TrackedKind::kInstanceDict || t->kind == TrackedKind::kDict);
  if (t == nullptr || (of_dict && contents_.HasNative(*t, "__setitem__"))) {
    BorrowedRef contents;
    const Truth kept = keys_.Keeps(container, key, &contents);
    if (kept != Truth::kFalse) return kept == Truth::kTrue && WriteKept(t, contents, key, value);
  }
  if (of_dict && IsKeyOfItsOwn(key.object) && contents_.HasNative(*t, "__setitem__")) {
    return contents_.WriteDictItem(*t, key, value);
  }
  PyTypeObject* type = container.object.type();
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && !IsFakeTensor(container.object)) {
    BorrowedRef method = reads_.LookupInType(type, "__setitem__");
    if (method && PyFunction_Check(method.get())) {
      const ValueView args[] = {container, key, value};
      return static_cast<bool>(calls_.CallFunction(act, objects_.Adopt(method, reads_.ConstantSource(method)), args,
                                                   nullptr, Completion::kDrop));
    }
  }
  const bool fake = IsFakeTensor(container.object);
  if (!arguments_.PrepareOuter(container)) return false;
  if (!(fake ? arguments_.PrepareSubscript(key) : arguments_.PrepareNative(key))) return false;
  reads_.Move(value);
  const TorchArguments sized(tracer_.numbers(), fake ? absl::MakeConstSpan(&key, 1) : absl::Span<const ValueView>());
  const ValueView own_key = key;
  if (fake) key = sized.args()[0];
  // A slice and a tensor take the value's items, not the value.
  if ((fake || PySlice_Check(key.object.get())) && !arguments_.PrepareNative(value)) return false;
  if (t != nullptr && !writes_.Replace(*t)) return false;
  FxCall call(fx_, {container.object, key.object, value.object});
  // Torch's own way with a single integer of Python's keeps it symbolic.
  const NumberIndex index = PyLong_CheckExact(own_key.object.get())
                                ? NumberIndex()
                                : SelectNumbers(tracer_.numbers(), boundary_, container.object, own_key.object);
  if (!boundary_.Check()) return false;
  const ValueView part = index.tensor ? ValueView(index.tensor, kNoSource) : container;
  const ValueView rest = index.tensor ? ValueView(index.rest, kNoSource) : key;
  const bool done = boundary_.RunAsLeaf(fake, [&] { return native_.SetItem(act, part, rest, value); });
  if (!boundary_.Check()) return false;
  if (!done || !fake) return done;
  return breaks_.Journalled(
      call.RecordOperator(NamedOperator("setitem"), {container.object, own_key.object, value.object}, Py_None));
}

bool Items::DeleteItem(Activation& act, ValueView container, ValueView key) {
  if (!MadeInBackward::Has(container.object) && !backward_.MayWrite()) return false;
  Tracked* t = objects_.Find(container.object);
  const bool of_dict = t != nullptr && (t->kind == TrackedKind::kInstanceDict || t->kind == TrackedKind::kDict);
  if (t == nullptr || (of_dict && contents_.HasNative(*t, "__delitem__"))) {
    BorrowedRef contents;
    const Truth kept = keys_.Keeps(container, key, &contents);
    if (kept == Truth::kError) return false;
    if (kept == Truth::kTrue && PyDict_Contains(contents, key.object) == 1) {
      return WriteKept(t, contents, key, ValueView());
    }
  }
  if (of_dict && IsKeyOfItsOwn(key.object) && contents_.HasNative(*t, "__delitem__")) {
    const std::optional<Value> found = contents_.DictItem(*t, key);
    if (!found) PyErr_SetObject(PyExc_KeyError, key.object);
    return found && *found && contents_.WriteDictItem(*t, key, ValueView());
  }
  PyTypeObject* type = container.object.type();
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) {
    BorrowedRef method = reads_.LookupInType(type, "__delitem__");
    if (method && PyFunction_Check(method.get())) {
      const ValueView args[] = {container, key};
      return static_cast<bool>(calls_.CallFunction(act, objects_.Adopt(method, reads_.ConstantSource(method)), args,
                                                   nullptr, Completion::kDrop));
    }
  }
  if (!arguments_.PrepareOuter(container) || !arguments_.PrepareNative(key)) return false;
  if (t != nullptr && !writes_.Replace(*t)) return false;
  const bool done = boundary_.Run([&] { return native_.DeleteItem(act, container, key); });
  return boundary_.Check() && done;
}

}  // namespace framefuse
