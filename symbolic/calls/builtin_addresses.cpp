// Addresses: id() and hash() of BuiltinCalls.
// Invariant: the program sees no address but that of an object from outside, which a guard compares. Tables of dicts
// and sets and the memo of a deep copy are keyed by other ones too, and nothing that is left of the attempt holds them.

#include "symbolic/calls/builtin_calls.h"

#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/private_api.h"
#include "guards/immutable.h"
#include "symbolic/calls/call_evaluator.h"
#include "symbolic/calls/native_calls.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/frame_stack.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {
namespace {

// The frame of Tensor.__hash__. A call that captured code makes of it is one of id() (call_rules.def), and C code is
// not given it (NativeArguments): so it is a table of C code that hashes a key.
bool IsHashOfKey(const Activation& act, BorrowedRef object) {
  if (!IsFakeTensor(object)) return false;
  const CallRule* rule = FindCallRule(reinterpret_cast<PyObject*>(frame_ops::Function(act.frame)));
  return rule != nullptr && rule->kind == CallRule::Kind::kSpecial && rule->special == SpecialCall::kId;
}

bool HasPythonHash(ReadJournal& reads, PyTypeObject* type) {
  const BorrowedRef method = reads.LookupInType(type, "__hash__");
  return method && PyFunction_Check(method.get());
}

}  // namespace

bool BuiltinCalls::MakesMemoKey(const Activation& act, BorrowedRef object) const {
  const Tracked* t = objects_.Find(object);
  if (!calls_.has_memo() || (t != nullptr && t->source != kNoSource && t->kind != TrackedKind::kTensor)) return false;
  PyCodeObject* code = frame_ops::Code(act.frame);
  return IsCopyCode(code) || IsOwnCode(code);
}

// The frame that the hash is for, which C code has called from.
bool BuiltinCalls::IsAskedForMembers() const {
  const std::vector<Activation*>& frames = frames_.all();
  return frames.size() > 1 && IsCodeOfMembers(frame_ops::Code(frames[frames.size() - 2]->frame));
}

Value BuiltinCalls::AddressOf(const Activation& act, ValueView object) {
  // A key of a memo that ends with the copy: any number that no other object has would do. Other objects from
  // outside may be one and the same in another call.
  const auto address = [](BorrowedRef o) { return Value{Ref::Steal(PyLong_FromVoidPtr(o.get())), kNoSource}; };
  if (MakesMemoKey(act, object.object)) return address(object.object);
  if (Tracked* t = objects_.Find(object.object); t != nullptr && t->source != kNoSource) {
    if (t->kind == TrackedKind::kTensor && IsHashOfKey(act, object.object) && IsAskedForMembers()) {
      t->compared = true;  // that no other one that is asked for is this one is all that tells
      return address(t->original);
    }
    reads_.AddGuard(t->source, GuardKind::kIdentity, t->original);
    return address(t->original);
  }
  if (IsHashOfKey(act, object.object)) return address(object.object);
  return breaks_.Break(GraphBreakKind::kIdentityOfFresh, "id()");
}

namespace {
// Of the parts of a tuple or frozenset those that are hashed by their address are these very objects, tensors among
// them. False: one was made here. A frozenset has hashed its elements when it was made.
bool GuardAddresses(BorrowedRef part, ObjectTable& objects, ReadJournal& reads) {
  if (PyTuple_CheckExact(part.get())) {
    bool all = true;
    for (Py_ssize_t i = 0; all && i < PyTuple_GET_SIZE(part.get()); ++i) {
      all = GuardAddresses(PyTuple_GET_ITEM(part.get(), i), objects, reads);
    }
    return all;
  }
  if (PyFrozenSet_CheckExact(part.get())) {
    Py_ssize_t at = 0;
    PyObject* element = nullptr;
    while (private_api::SetNext(part.get(), &at, &element)) {
      if (!GuardAddresses(element, objects, reads)) return false;
    }
    return true;
  }
  if (IsLeaf(part) || (!IsHashedByIdentity(part.type()) && !IsFakeTensor(part))) return true;
  const Tracked* t = objects.Find(part);
  if (t == nullptr || t->source == kNoSource) return false;
  reads.AddGuard(t->source, GuardKind::kIdentity, t->original);
  return true;
}
}  // namespace

Value BuiltinCalls::HashOf(ValueView callable, absl::Span<const ValueView> args) {
  reads_.Consume(args[0]);
  PyTypeObject* type = args[0].object.type();
  const bool by_value = IsLeaf(args[0].object) || PyTuple_CheckExact(args[0].object.get()) ||
                        PyRange_Check(args[0].object.get()) || IsImmutableKey(args[0].object) ||
                        (PyFrozenSet_CheckExact(args[0].object.get()) && objects_.Find(args[0].object) == nullptr);
  const bool by_method =
      !IsFakeTensor(args[0].object) && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && HasPythonHash(reads_, type);
  const bool known =
      by_method || ((by_value || IsFakeTensor(args[0].object)) && GuardAddresses(args[0].object, objects_, reads_));
  if (!known) return breaks_.Break(GraphBreakKind::kIdentityOfFresh, "hash()");
  return arguments_.PrepareAll(args) ? natives_.CallNative(callable.object, args, nullptr) : Value();
}

}  // namespace framefuse
