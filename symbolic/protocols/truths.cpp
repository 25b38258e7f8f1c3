#include "symbolic/protocols/truths.h"

#include <torch/csrc/Size.h>

#include "frame_eval/versions/private_api.h"
#include "guards/read.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/journals/backward_phase.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/elements.h"
#include "symbolic/journals/expected_truths.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_contents.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/text_facts.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/descriptors.h"
#include "symbolic/rules/numpy_scalars.h"
#include "symbolic/rules/tensor_types.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

Truths::Truths(Journals& journals, NativeProtocols& native)
    : tracer_(journals.tracer()),
      breaks_(journals.breaks()),
      backward_(journals.backward()),
      expected_(journals.expected()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      contents_(journals.contents()),
      arguments_(journals.arguments()),
      native_(native),
      sizes_(journals),
      keys_(journals) {}

// Pinned, and where Python keeps one object of each such value, that one.
Ref Truths::PlainNumber(BorrowedRef object) {
  if (!tracer_.numbers().IsSymbolic(object)) return Ref::Create(object.get());
  const Ref original = Ref::Create(tracer_.numbers().OriginalOf(object));
  reads_.PinNumber(object);
  if (original) return original;
  if (PyFloat_CheckExact(object.get())) return Ref::Steal(PyFloat_FromDouble(PyFloat_AS_DOUBLE(object.get())));
  return Ref::Steal(PyLong_FromLongLong(PyLong_AsLongLong(object)));
}

Truth Truths::IsNone(Activation& act, ValueView v) { return Is(act, v, ValueView(Py_None, kNoSource)); }

Truth Truths::Is(Activation& act, ValueView left, ValueView right) {
  const tracing::Numbers& numbers = tracer_.numbers();
  if (numbers.IsSymbolic(left.object) || numbers.IsSymbolic(right.object)) {
    if (left.object == right.object) return Truth::kTrue;
    if (left.object.type() == right.object.type() && IsNumpyNumberType(left.object.type())) {
      const Ref l = PlainNumber(left.object), r = PlainNumber(right.object);
      return Is(act, ValueView(l, left.source), ValueView(r, right.source));
    }
    // None, or anything else that is no number: which number it is does not matter.
    const ValueView other = numbers.IsSymbolic(left.object) ? right : left;
    if (!PyLong_CheckExact(other.object.get()) && !PyFloat_CheckExact(other.object.get())) {
      reads_.Consume(other);
      return Truth::kFalse;
    }
    const Ref l = PlainNumber(left.object), r = PlainNumber(right.object);
    return Is(act, ValueView(l, left.source), ValueView(r, right.source));
  }
  const bool same = left.object == right.object;
  const bool by_value = objects_.IsElementByValue(left.object) || objects_.IsElementByValue(right.object);
  if (by_value && left.object.type() == right.object.type()) {
    return breaks_.BreakTruth(GraphBreakKind::kOpaqueObject, "which object a key or an element of a set is");
  }
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

namespace {
// Whether a set from outside holds the tensor, found by its address. Nothing: another way tells.
std::optional<bool> HoldsTensor(const Tracked& set, BorrowedRef item, const ObjectTable& objects, ReadJournal& reads) {
  const bool untouched = set.kind == TrackedKind::kSet ? !set.realised && !set.mutated() : set.source != kNoSource;
  const Tracked* tensor = objects.Find(item);
  if (!PyAnySet_CheckExact(set.original.get()) || !untouched || tensor == nullptr || tensor->source == kNoSource ||
      !IsTensorByAddress(tensor->original)) {
    return std::nullopt;
  }
  PyObject* element = nullptr;
  Py_ssize_t at = 0;
  bool found = false;
  while (private_api::SetNext(set.original.get(), &at, &element)) {
    if (!IsTensorByAddress(element)) return std::nullopt;
    found = found || element == tensor->original.get();
  }
  reads.AddGuard(set.source, GuardKind::kSetEquals, set.original);
  reads.AddGuard(tensor->source, GuardKind::kIdentity, tensor->original);
  return found;
}
}  // namespace
Truth Truths::Contains(Activation& act, ValueView item, ValueView container) {
  if (const std::optional<Truth> found = keys_.IsIn(item, container)) return *found;
  if (IsNoneOfTexts(reads_, item, container)) return Truth::kFalse;
  Tracked* t = objects_.Find(container.object);
  const bool keyed = t != nullptr &&
                     (t->kind == TrackedKind::kInstanceDict || (t->kind == TrackedKind::kDict && !t->realised)) &&
                     contents_.HasNative(*t, "__contains__");
  if (keyed && IsKeyOfItsOwn(item.object)) {
    reads_.Consume(item);
    if (t->kind == TrackedKind::kDict && t->FindWrite(item.object) == nullptr) {
      const int found = PyDict_Contains(t->original, item.object);
      if (found < 0) return Truth::kError;
      if (found != 0) reads_.AddGuard(t->source, GuardKind::kHasKey, item.object);
      if (found == 0 && !reads_.GuardLacksKey(t->source, item.object)) return Truth::kError;
      return found != 0 ? Truth::kTrue : Truth::kFalse;
    }
    const std::optional<Value> found = contents_.DictItem(*t, item);
    if (found && !*found) return Truth::kError;
    return found ? Truth::kTrue : Truth::kFalse;
  }
  if (keyed && IsFakeTensor(item.object)) {
    if (const std::optional<Value> found = contents_.ItemOfTensor(*t, item.object)) {
      return *found ? Truth::kTrue : Truth::kError;
    }
  }
  if (t != nullptr && IsFakeTensor(item.object)) {
    if (const std::optional<bool> found = HoldsTensor(*t, item.object, objects_, reads_)) {
      return *found ? Truth::kTrue : Truth::kFalse;
    }
  }
  const bool looks_at_keys_only =
      PyDict_CheckExact(container.object.get()) || (t != nullptr && t->kind == TrackedKind::kSet);
  if (!arguments_.PrepareNative(item) ||
      !(looks_at_keys_only ? arguments_.PrepareMembership(container) : arguments_.PrepareNative(container))) {
    return Truth::kError;
  }
  const Truth result = boundary_.Run([&] { return native_.Contains(act, item, container); });
  return boundary_.Check() ? result : Truth::kError;
}

namespace {
// Its length is its truth, and what it holds, a symbolic number perhaps, is not looked at.
bool IsNativeContainer(BorrowedRef o) {
  return PyTuple_CheckExact(o.get()) || PyList_CheckExact(o.get()) || PyDict_CheckExact(o.get()) ||
         PyAnySet_CheckExact(o.get()) || THPSize_Check(o.get());
}
}  // namespace

Truth Truths::IsTrue(Activation& act, ValueView v) {
  if (const std::optional<bool> truth = sizes_.IsTrue(v)) return *truth ? Truth::kTrue : Truth::kFalse;
  const bool is_marker = v.object.type() == &PyBaseObject_Type;
  if (is_marker || (v.source == kNoSource && IsNativeContainer(v.object) && objects_.Find(v.object) == nullptr)) {
    return is_marker ? Truth::kTrue : native_.IsTrue(act, v);
  }
  if (IsLeaf(v.object)) {
    reads_.Consume(v);
    return native_.IsTrue(act, v);
  }
  Tracked* t = objects_.Find(v.object);
  const bool by_length = t != nullptr && t->has_shadow() && contents_.HasNative(*t, "__len__") &&
                         (t->attributes == nullptr || !reads_.LookupInType(v.object.type(), "__bool__"));
  if (by_length) {
    if (const Ref symbolic = contents_.SymbolicLength(*t)) {
      if (const std::optional<bool> truth = sizes_.IsTrue(ValueView(symbolic, kNoSource))) {
        return *truth ? Truth::kTrue : Truth::kFalse;
      }
    }
    const std::int64_t size = contents_.Length(*t);
    if (size < 0) return Truth::kError;
    return size != 0 ? Truth::kTrue : Truth::kFalse;
  }
  if (IsFakeTensor(v.object)) {
    const Ref known = tracer_.KnownValueOf(v.object);
    const std::optional<bool> expected = known ? std::nullopt : expected_.Expect(act, v.object);
    if (expected) return *expected ? Truth::kTrue : Truth::kFalse;
    const Truth result = native_.IsTrue(act, v);
    const std::optional<tracing::TensorBreak>& pending = tracer_.PendingBreak();
    if (pending && pending->kind == tracing::BreakKind::kDataDependent) {
      PyErr_Clear();
      return breaks_.BreakTruth(GraphBreakKind::kDataDependentBranch, "");
    }
    return boundary_.Check() ? result : Truth::kError;
  }
  PyTypeObject* type = v.object.type();
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) {
    const bool has_bool = static_cast<bool>(reads_.LookupInType(type, "__bool__"));
    const bool has_len = static_cast<bool>(reads_.LookupInType(type, "__len__"));
    if (!has_bool && !has_len) return Truth::kTrue;
  }
  if (!arguments_.PrepareNative(v)) return Truth::kError;
  const Truth result = boundary_.Run([&] { return native_.IsTrue(act, v); });
  return boundary_.Check() ? result : Truth::kError;
}

// An empty dict among a Python object's own attributes, as the hooks of most modules are. Its type and length are
// guarded where it stands; it needs no representative.
std::optional<bool> Truths::TruthOfAttr(Activation&, ValueView owner, BorrowedRef name) {
  Tracked* t = objects_.Find(owner.object);
  PyTypeObject* type = owner.object.type();
  if (t == nullptr || t->kind != TrackedKind::kInstance || backward_.running() || !IsPythonClass(type))
    return std::nullopt;
  if (t->FindWrite(name) != nullptr) return std::nullopt;
  PyObject* found = frame_ops::RawInstanceAttr(t->original, name);
  if (found == nullptr || !(PyDict_CheckExact(found) || PyODict_CheckExact(found))) return std::nullopt;
  if (PyDict_GET_SIZE(found) != 0) return std::nullopt;
  static PyObject* const getattribute = PyUnicode_InternFromString("__getattribute__");
  if (!IsNativeDefault(reads_.LookupInType(type, getattribute), getattribute) || reads_.LookupInType(type, name)) {
    return std::nullopt;
  }
  const SourceId source = reads_.sources().InstanceAttr(t->source, name);
  if (!objects_.NoteEmptyDict(source, found)) return std::nullopt;
  reads_.AddGuard(source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(Py_TYPE(found)));
  reads_.AddLength(source, 0);
  return false;
}

}  // namespace framefuse
