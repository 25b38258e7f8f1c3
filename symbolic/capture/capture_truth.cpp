// The truth of a value, and of an attribute that is only tested.

#include "symbolic/capture/builtin_types.h"
#include "symbolic/capture/capture.h"
#include "symbolic/capture/code_text.h"
#include "symbolic/capture/descriptors.h"

namespace framefuse {

Truth Capture::IsTrue(Activation& act, ValueView v) {
  if (IsLeaf(v.object)) {
    reads_.Consume(v);
    return native_.IsTrue(act, v);
  }
  Tracked* t = objects_.Find(v.object);
  if (t != nullptr && t->is_container()) {
    const std::int64_t size = contents_.Length(*t);
    if (breaks_.unwinding() || size < 0) return Truth::kError;
    return size != 0 ? Truth::kTrue : Truth::kFalse;
  }
  if (t != nullptr && t->kind == TrackedKind::kInstanceDict) {
    return breaks_.BreakTruth(GraphBreakKind::kOpaqueObject, "the truth of the __dict__ of an object");
  }
  if (IsFakeTensor(v.object)) {
    const Truth result = native_.IsTrue(act, v);
    if (breaks_.unwinding()) return Truth::kError;
    const std::optional<tracing::TensorBreak>& pending = tracer_.PendingBreak();
    if (pending && pending->kind == tracing::BreakKind::kDataDependent) {
      PyErr_Clear();
      return breaks_.BreakTruth(GraphBreakKind::kDataDependentBranch, "a tensor");
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
std::optional<bool> Capture::TruthOfAttr(Activation&, ValueView owner, BorrowedRef name) {
  Tracked* t = objects_.Find(owner.object);
  PyTypeObject* type = owner.object.type();
  if (t == nullptr || t->kind != TrackedKind::kInstance || backward_.running() || !IsPythonClass(type))
    return std::nullopt;
  if (t->FindWrite(name) != nullptr) return std::nullopt;
  PyObject* found = frame_ops::RawInstanceAttr(t->original, name);
  if (found == nullptr || !(PyDict_CheckExact(found) || PyODict_CheckExact(found))) return std::nullopt;
  if (PyDict_GET_SIZE(found) != 0) return std::nullopt;
  static PyObject* const getattribute = PyUnicode_InternFromString("__getattribute__");
  if (IsPythonFunction(reads_.LookupInType(type, getattribute)) || reads_.LookupInType(type, name)) return std::nullopt;
  const SourceId source = reads_.sources().InstanceAttr(t->source, name);
  if (!objects_.NoteEmptyDict(source, found)) return std::nullopt;
  reads_.AddGuard(source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(Py_TYPE(found)));
  reads_.AddLength(source, 0);
  return false;
}

}  // namespace framefuse
