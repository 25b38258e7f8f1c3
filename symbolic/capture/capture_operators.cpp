// Operators, comparisons, truth, membership and subscripts.

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "symbolic/capture/capture.h"
#include "symbolic/capture/code_text.h"

namespace framefuse {
namespace {

// By NB_* number: in-place forms stand 13 later.
constexpr std::array<std::string_view, 26> kOperatorNames = {
    "add",    "and_", "floordiv", "lshift", "matmul",  "mul",  "mod",       "or_",     "pow",
    "rshift", "sub",  "truediv",  "xor",    "iadd",    "iand", "ifloordiv", "ilshift", "imatmul",
    "imul",   "imod", "ior",      "ipow",   "irshift", "isub", "itruediv",  "ixor"};

// operator's function, for the torch-level journal.
BorrowedRef OperatorFunction(int nb_op) {
  static PyObject* functions[kOperatorNames.size()] = {};
  if (functions[nb_op] == nullptr) {
    Ref module = Ref::Steal(PyImport_ImportModule("operator"));
    functions[nb_op] = PyObject_GetAttrString(module, kOperatorNames[static_cast<std::size_t>(nb_op)].data());
  }
  return functions[nb_op];
}

BorrowedRef NamedOperator(const char* name) {
  static auto* cache = new absl::flat_hash_map<std::string, PyObject*>();
  PyObject*& slot = (*cache)[name];
  if (slot == nullptr) {
    Ref module = Ref::Steal(PyImport_ImportModule("operator"));
    slot = PyObject_GetAttrString(module, name);
  }
  return slot;
}

const char* CompareName(int py_op) {
  static const char* const kNames[] = {"lt", "le", "eq", "ne", "gt", "ge"};
  return kNames[py_op];
}

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

}  // namespace

Value Capture::Unary(Activation& act, UnaryOp op, ValueView v) {
  if (op == UnaryOp::kNot) {
    const Truth truth = IsTrue(act, v);
    if (truth == Truth::kError) return Value();
    return Value{Ref::Create(truth == Truth::kTrue ? Py_False : Py_True), kNoSource};
  }
  if (!arguments_.PrepareNative(v)) return Value();
  const bool fake = IsFakeTensor(v.object);
  FxCall call(fx_, {v.object});
  Value result = boundary_.RunAsLeaf(fake, [&] { return native_.Unary(act, op, v); });
  if (!boundary_.Check()) return Value();
  if (result && fake) {
    const char* name = op == UnaryOp::kNegative ? "neg" : op == UnaryOp::kInvert ? "invert" : "pos";
    if (!Journalled(call.RecordOperator(NamedOperator(name), {v.object}, result.object))) return Value();
  }
  return result;
}

Value Capture::Binary(Activation& act, int nb_op, ValueView left, ValueView right) {
  Tracked* t = objects_.Find(left.object);
  if (!arguments_.PrepareNative(left) || !arguments_.PrepareNative(right)) return Value();
  const bool formats = PyUnicode_Check(left.object.get()) || PyBytes_Check(left.object.get());
  if (formats && !arguments_.HaveTextOfTheirOwn(absl::MakeConstSpan(&right, 1))) return Value();
  constexpr int kFirstInplace = 13;
  if (t != nullptr && nb_op >= kFirstInplace) {
    if (t->kind == TrackedKind::kList || t->kind == TrackedKind::kDict || t->kind == TrackedKind::kSet ||
        t->kind == TrackedKind::kDeque) {
      if (!writes_.Replace(*t)) return Value();
    }
  }
  const bool fake = IsFakeTensor(left.object) || IsFakeTensor(right.object);
  FxCall call(fx_, {left.object, right.object});
  Value result = boundary_.RunAsLeaf(fake, [&] { return native_.Binary(act, nb_op, left, right); });
  if (!boundary_.Check()) return Value();
  if (result && fake) {
    const BorrowedRef function = OperatorFunction(nb_op);
    if (!Journalled(call.RecordOperator(function, {left.object, right.object}, result.object))) return Value();
  }
  return result;
}

int OperatorNumber(std::string_view name) {
  return static_cast<int>(std::find(kOperatorNames.begin(), kOperatorNames.end(), name) - kOperatorNames.begin());
}

Value Capture::Compare(Activation& act, int py_op, ValueView left, ValueView right) {
  Tracked* l = objects_.Find(left.object);
  Tracked* r = objects_.Find(right.object);
  const bool by_identity = l != nullptr && (l->kind == TrackedKind::kInstance || l->kind == TrackedKind::kFunction);
  if (by_identity && r != nullptr && l != r && l->kind == r->kind) {
    reads_.AddGuard(l->source, GuardKind::kDistinctFrom, nullptr, r->source);  // equality may fall back to identity
  }
  if (!arguments_.PrepareNative(left) || !arguments_.PrepareNative(right)) return Value();
  const bool fake = IsFakeTensor(left.object) || IsFakeTensor(right.object);
  FxCall call(fx_, {left.object, right.object});
  Value result = boundary_.RunAsLeaf(fake, [&] { return native_.Compare(act, py_op, left, right); });
  if (!boundary_.Check()) return Value();
  if (result && fake) {
    const BorrowedRef function = NamedOperator(CompareName(py_op));
    if (!Journalled(call.RecordOperator(function, {left.object, right.object}, result.object))) return Value();
  }
  return result;
}

Truth Capture::IsNone(Activation& act, ValueView v) { return Is(act, v, ValueView(Py_None, kNoSource)); }

Truth Capture::Is(Activation&, ValueView left, ValueView right) {
  const bool same = left.object == right.object;
  const auto weaker = [&](ValueView leaf, ValueView other) {
    // Against None the type of a leaf decides; against anything else its value does.
    if (leaf.source == kNoSource || !IsLeaf(leaf.object)) return;
    if (other.object.get() == Py_None && leaf.object.get() != Py_None) {
      reads_.AddGuard(leaf.source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(leaf.object.type()));
    } else {
      reads_.Consume(leaf);
    }
  };
  weaker(left, right);
  weaker(right, left);
  if (!reads_.GuardLeafIdentity(left, right, same)) return Truth::kError;
  Tracked* l = objects_.Find(left.object);
  Tracked* r = objects_.Find(right.object);
  if (!same && l != nullptr && r != nullptr && l->kind == r->kind && l->source != kNoSource && r->source != kNoSource) {
    reads_.AddGuard(l->source, GuardKind::kDistinctFrom, nullptr, r->source);
  }
  return same ? Truth::kTrue : Truth::kFalse;
}

Truth Capture::Contains(Activation& act, ValueView item, ValueView container) {
  Tracked* t = objects_.Find(container.object);
  const bool keyed =
      t != nullptr && (t->kind == TrackedKind::kInstanceDict || (t->kind == TrackedKind::kDict && !t->realised));
  if (keyed && IsLeaf(item.object)) {
    reads_.Consume(item);
    if (t->kind == TrackedKind::kDict && t->FindWrite(item.object) == nullptr) {
      const int found = PyDict_Contains(t->original, item.object);
      if (found < 0) return Truth::kError;
      reads_.AddGuard(t->source, found != 0 ? GuardKind::kHasKey : GuardKind::kLacksKey, item.object);
      return found != 0 ? Truth::kTrue : Truth::kFalse;
    }
    Value found = contents_.DictItem(*t, item);
    if (breaks_.unwinding() || (!found && PyErr_Occurred())) return Truth::kError;
    return found ? Truth::kTrue : Truth::kFalse;
  }
  if (t != nullptr && t->kind == TrackedKind::kInstanceDict) {
    return breaks_.BreakTruth(GraphBreakKind::kOpaqueObject, "a key that is no string in the __dict__ of an object");
  }
  const bool looks_at_keys_only = PyDict_CheckExact(container.object.get());
  if (!arguments_.PrepareNative(item) ||
      !(looks_at_keys_only ? arguments_.PrepareOuter(container) : arguments_.PrepareNative(container))) {
    return Truth::kError;
  }
  const Truth result = boundary_.Run([&] { return native_.Contains(act, item, container); });
  return boundary_.Check() ? result : Truth::kError;
}

Value Capture::GetLength(Activation& act, ValueView v) {
  if (PyUnicode_CheckExact(v.object.get())) {
    reads_.Consume(v);
    return Value{Ref::Steal(PyLong_FromSsize_t(PyUnicode_GET_LENGTH(v.object.get()))), kNoSource};
  }
  Tracked* t = objects_.Find(v.object);
  if (t != nullptr && t->is_container()) {
    const std::int64_t size = contents_.Length(*t);
    if (breaks_.unwinding() || size < 0) return Value();
    return Value{Ref::Steal(PyLong_FromLongLong(size)), kNoSource};
  }
  if (!arguments_.PrepareOuter(v)) return Value();
  BorrowedRef method;
  if ((v.object.type()->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) method = reads_.LookupInType(v.object.type(), "__len__");
  if (method && PyFunction_Check(method.get())) {
    const ValueView args[] = {v};
    Value r =
        CallFunction(act, objects_.Adopt(method, reads_.ConstantSource(method)), args, nullptr, Completion::kCallback);
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

Value Capture::ClassItem(Activation& act, ValueView cls, ValueView key) {
  BorrowedRef in_meta = reads_.LookupInType(cls.object.type(), "__getitem__");
  if (in_meta && PyFunction_Check(in_meta.get())) {
    const ValueView args[] = {cls, key};
    return CallFunction(act, objects_.Adopt(in_meta, reads_.ConstantSource(in_meta)), args, nullptr, Completion::kPush);
  }
  static PyObject* const name = PyUnicode_InternFromString("__class_getitem__");
  const BorrowedRef maker = reads_.LookupInType(reinterpret_cast<PyTypeObject*>(cls.object.get()), name);
  if (MakesGenericAlias(maker)) {
    if (!arguments_.PrepareNative(key)) return Value();
    return boundary_.Wrap(Ref::Steal(boundary_.Run([&] { return PyObject_GetItem(cls.object, key.object); })));
  }
  if (maker && Py_IS_TYPE(maker.get(), &PyClassMethod_Type)) {
    const Value bound = LoadAttr(act, cls, name);
    const ValueView args[] = {key};
    return bound ? CallWith(act, bound, args, nullptr, Completion::kPush) : Value();
  }
  return breaks_.Break(GraphBreakKind::kUnlistedCallable, "subscript of a class");
}

Value Capture::GetItem(Activation& act, ValueView container, ValueView key) {
  Tracked* t = objects_.Find(container.object);
  if (t != nullptr && IsLeaf(key.object)) {
    reads_.Consume(key);
    if (std::optional<Value> found = contents_.OneItem(*t, key)) return *std::move(found);
  }
  if (PyType_Check(container.object.get())) return ClassItem(act, container, key);
  PyTypeObject* type = container.object.type();
  if (t != nullptr && IsOfTyping(type)) {  // Optional[int]: nothing that the program could tell from an earlier one
    reads_.AddGuard(t->source, GuardKind::kIdentity, t->original);
    if (!arguments_.PrepareNative(key)) return Value();
    const HookScope native(HookMode::kOff);
    return boundary_.Wrap(Ref::Steal(PyObject_GetItem(container.object, key.object)));
  }
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && !IsFakeTensor(container.object)) {
    BorrowedRef method = reads_.LookupInType(type, "__getitem__");
    if (method && PyFunction_Check(method.get())) {
      const ValueView args[] = {container, key};
      return CallFunction(act, objects_.Adopt(method, reads_.ConstantSource(method)), args, nullptr, Completion::kPush);
    }
  }
  if (!arguments_.PrepareOuter(container) || !arguments_.PrepareNative(key)) return Value();
  if (t != nullptr && t->kind == TrackedKind::kDict && !PyDict_CheckExact(t->representative.get()) &&
      !PyODict_CheckExact(t->representative.get())) {
    if (!writes_.Replace(*t)) return Value();  // a defaultdict's look-up may insert
  }
  const bool fake = IsFakeTensor(container.object);
  FxCall call(fx_, {container.object, key.object});
  Value result = boundary_.RunAsLeaf(fake, [&] { return native_.GetItem(act, container, key); });
  if (!boundary_.Check()) return Value();
  if (result && fake) {
    const BorrowedRef function = NamedOperator("getitem");
    if (!Journalled(call.RecordOperator(function, {container.object, key.object}, result.object))) return Value();
  }
  return result;
}

bool Capture::SetItem(Activation& act, ValueView container, ValueView key, ValueView value) {
  if (!IsFakeTensor(container.object) && !backward_.MayWrite()) return false;
  Tracked* t = objects_.Find(container.object);
  if (t != nullptr && (t->kind == TrackedKind::kInstanceDict || t->kind == TrackedKind::kDict) && IsLeaf(key.object)) {
    return contents_.WriteDictItem(*t, key, value);
  }
  PyTypeObject* type = container.object.type();
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && !IsFakeTensor(container.object)) {
    BorrowedRef method = reads_.LookupInType(type, "__setitem__");
    if (method && PyFunction_Check(method.get())) {
      const ValueView args[] = {container, key, value};
      return static_cast<bool>(
          CallFunction(act, objects_.Adopt(method, reads_.ConstantSource(method)), args, nullptr, Completion::kDrop));
    }
  }
  if (!arguments_.PrepareOuter(container) || !arguments_.PrepareNative(key) || (reads_.Consume(value), false))
    return false;
  const bool fake = IsFakeTensor(container.object);
  // A slice and a tensor take the value's items, not the value.
  if ((fake || PySlice_Check(key.object.get())) && !arguments_.PrepareNative(value)) return false;
  if (t != nullptr && !writes_.Replace(*t)) return false;
  FxCall call(fx_, {container.object, key.object, value.object});
  const bool done = boundary_.RunAsLeaf(fake, [&] { return native_.SetItem(act, container, key, value); });
  if (!boundary_.Check()) return false;
  if (!done || !fake) return done;
  return Journalled(
      call.RecordOperator(NamedOperator("setitem"), {container.object, key.object, value.object}, Py_None));
}

bool Capture::DeleteItem(Activation& act, ValueView container, ValueView key) {
  Tracked* t = objects_.Find(container.object);
  if (t != nullptr && (t->kind == TrackedKind::kInstanceDict || t->kind == TrackedKind::kDict) && IsLeaf(key.object)) {
    Value found = contents_.DictItem(*t, key);
    if (breaks_.unwinding() || PyErr_Occurred()) return false;
    if (!found) {
      PyErr_SetObject(PyExc_KeyError, key.object);
      return false;
    }
    return contents_.WriteDictItem(*t, key, ValueView());
  }
  PyTypeObject* type = container.object.type();
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) {
    BorrowedRef method = reads_.LookupInType(type, "__delitem__");
    if (method && PyFunction_Check(method.get())) {
      const ValueView args[] = {container, key};
      return static_cast<bool>(
          CallFunction(act, objects_.Adopt(method, reads_.ConstantSource(method)), args, nullptr, Completion::kDrop));
    }
  }
  if (!arguments_.PrepareOuter(container) || !arguments_.PrepareNative(key)) return false;
  if (t != nullptr && !writes_.Replace(*t)) return false;
  const bool done = boundary_.Run([&] { return native_.DeleteItem(act, container, key); });
  return boundary_.Check() && done;
}

}  // namespace framefuse
