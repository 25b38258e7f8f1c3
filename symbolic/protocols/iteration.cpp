#include "symbolic/protocols/iteration.h"

#include "absl/strings/str_cat.h"
#include "symbolic/calls/call_evaluator.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/moving_code.h"
#include "symbolic/rules/number_arrays.h"

namespace framefuse {

Iteration::Iteration(Journals& journals, NativeProtocols& native, CallEvaluator& calls)
    : breaks_(journals.breaks()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      arguments_(journals.arguments()),
      native_(native),
      calls_(calls) {}

// A frame that begins with something on its value stack goes on after a break.
bool Iteration::IsOfAResumedLoop(const Activation& act, SourceId source) const {
  if (source == kNoSource || reads_.sources()[source].kind != SourceKind::kLocal) return false;
  return reads_.sources()[source].index >= frame_ops::Code(act.frame)->co_nlocalsplus;
}

// Makes sure that iterating `v` natively reads only what is guarded.
bool Iteration::GuardIterable(Activation& act, ValueView v, const char* what) {
  Tracked* t = objects_.Find(v.object);
  if (t != nullptr && t->kind == TrackedKind::kOpaque && !IsRangeOrSlice(v.object) && !IsArray(v.object)) {
    if (v.object.type()->tp_iternext != nullptr) {
      return breaks_.BreakFalse(
          GraphBreakKind::kSuspendedGenerator,
          absl::StrCat(what, " of ", v.object.type()->tp_name,
                       IsOfAResumedLoop(act, t->source) ? ", which a graph break left in the middle" : ""));
    }
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, absl::StrCat(what, " of ", v.object.type()->tp_name));
  }
  if (t == nullptr && v.object.type()->tp_iternext != nullptr && !IsPythonClass(v.object.type())) {
    // A fresh iterator: each item that it gives is looked at for itself.
    return MovesItems(v.object) || IsTemplateIterator(v.object) || arguments_.PrepareNative(v);
  }
  return arguments_.PrepareWalked(v);
}

Value Iteration::GetIter(Activation& act, ValueView v) {
  PyTypeObject* type = v.object.type();
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && !IsFakeTensor(v.object) && !PyType_Check(v.object.get())) {
    BorrowedRef method = reads_.LookupInType(type, "__iter__");
    if (method && PyFunction_Check(method.get())) {
      const ValueView args[] = {v};
      Value result = calls_.CallFunction(act, objects_.Adopt(method, reads_.ConstantSource(method)), args, nullptr,
                                         Completion::kPush);
      if (result && !PyIter_Check(result.object.get())) {
        PyErr_Format(PyExc_TypeError, "iter() returned non-iterator of type '%.100s'", result.object.type()->tp_name);
        return Value();
      }
      return result;
    }
  }
  if (!GuardIterable(act, v, "iteration")) return Value();
  const bool fake = IsFakeTensor(v.object);
  Value result = boundary_.RunAsLeaf(fake, [&] { return native_.GetIter(act, v); });
  return boundary_.Check() ? std::move(result) : Value();
}

Value Iteration::GetYieldFromIter(Activation& act, ValueView v) {
  if (PyGen_CheckExact(v.object.get()) && objects_.Find(v.object) == nullptr) return native_.GetYieldFromIter(act, v);
  return GetIter(act, v);
}

ForIterOutcome Iteration::ForIter(Activation& act, ValueView iterator, Value* item) {
  if (!GuardIterable(act, iterator, "next()")) return ForIterOutcome::kError;
  const ForIterOutcome outcome = boundary_.Run([&] { return native_.ForIter(act, iterator, item); }, iterator.object);
  return boundary_.Check() ? outcome : ForIterOutcome::kError;
}

SendOutcome Iteration::Send(Activation& act, ValueView receiver, ValueView sent, Value* result) {
  reads_.Move(sent);
  if (PyCoro_CheckExact(receiver.object.get()) || PyAsyncGen_CheckExact(receiver.object.get())) {
    const bool suspends = act.completion == Completion::kRoot;
    return breaks_.BreakFalse(suspends ? GraphBreakKind::kSuspends : GraphBreakKind::kAsync, "")
               ? SendOutcome::kReturned
               : SendOutcome::kError;
  }
  if (!GuardIterable(act, receiver, "yield from")) return SendOutcome::kError;
  const SendOutcome outcome = boundary_.Run([&] { return native_.Send(act, receiver, sent, result); }, receiver.object);
  return boundary_.Check() ? outcome : SendOutcome::kError;
}

namespace {
// Also a named tuple, unless its class has an __iter__ of its own.
bool IsWalkedAsTuple(BorrowedRef object, ReadJournal& reads) {
  if (!PyTuple_Check(object.get())) return false;
  reads.LookupInType(object.type(), "__iter__");  // guarded: it may be given one
  return object.type()->tp_iter == PyTuple_Type.tp_iter;
}
}  // namespace

bool Iteration::UnpackSequence(Activation& act, ValueView v, absl::Span<Value> out) {
  Tracked* t = objects_.Find(v.object);
  if (t != nullptr && t->kind == TrackedKind::kTuple && IsWalkedAsTuple(v.object, reads_) &&
      PyTuple_GET_SIZE(t->representative.get()) == static_cast<Py_ssize_t>(out.size())) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      PyObject* item = PyTuple_GET_ITEM(t->representative.get(), static_cast<Py_ssize_t>(i));
      Ref index = Ref::Steal(PyLong_FromSize_t(i));
      Tracked* known = IsLeaf(item) ? nullptr : objects_.Find(item);
      const SourceId source =
          IsLeaf(item) ? reads_.sources().Item(t->source, index) : (known != nullptr ? known->source : kNoSource);
      out[i] = Value{Ref::Create(item), source};
    }
    return true;
  }
  if (t == nullptr && (IsWalkedAsTuple(v.object, reads_) || PyList_CheckExact(v.object.get()))) {
    return native_.UnpackSequence(act, v, out);
  }
  const bool fake = IsFakeTensor(v.object);
  if (!GuardIterable(act, v, "unpacking")) return false;
  const bool done = boundary_.RunAsLeaf(
      fake, [&] { return native_.UnpackSequence(act, v, out); }, v.object);
  return boundary_.Check() && done;
}

bool Iteration::UnpackEx(Activation& act, ValueView v, int before, int after, absl::Span<Value> out) {
  if (!GuardIterable(act, v, "unpacking")) return false;
  const bool fake = IsFakeTensor(v.object);
  const bool done = boundary_.RunAsLeaf(
      fake, [&] { return native_.UnpackEx(act, v, before, after, out); }, v.object);
  return boundary_.Check() && done;
}

// next(), with a default or without.
Value Iteration::NextOf(Activation& act, absl::Span<const ValueView> args) {
  if (!GuardIterable(act, args[0], "next()")) return Value();
  iternextfunc step = args[0].object.type()->tp_iternext;
  Value item = boundary_.Wrap(Ref::Steal(boundary_.Run([&] { return step(args[0].object); }, args[0].object)));
  if (item) return item;
  if (PyErr_Occurred() && (args.size() == 1 || !PyErr_ExceptionMatches(PyExc_StopIteration))) return Value();
  PyErr_Clear();
  if (args.size() == 2) return Value{Ref::Create(args[1].object), args[1].source};
  PyErr_SetNone(PyExc_StopIteration);
  return Value();
}

}  // namespace framefuse
