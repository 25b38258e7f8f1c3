// Iteration, unpacking and building of containers.

#include "absl/strings/str_cat.h"
#include "symbolic/capture/builtin_types.h"
#include "symbolic/capture/capture.h"
#include "symbolic/capture/code_text.h"

namespace framefuse {

// Makes sure that iterating `v` natively reads only what is guarded.
bool Capture::GuardIterable(Activation&, ValueView v, const char* what) {
  Tracked* t = objects_.Find(v.object);
  if (t != nullptr && t->kind == TrackedKind::kOpaque && !IsRangeOrSlice(v.object)) {
    if (v.object.type()->tp_iternext != nullptr) {
      return breaks_.BreakFalse(GraphBreakKind::kSuspendedGenerator,
                                absl::StrCat(what, " of ", v.object.type()->tp_name));
    }
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, absl::StrCat(what, " of ", v.object.type()->tp_name));
  }
  if (t == nullptr && v.object.type()->tp_iternext != nullptr && !IsPythonClass(v.object.type())) {
    return true;  // a fresh iterator: each item that it gives is looked at for itself
  }
  return arguments_.PrepareOuter(v);
}

Value Capture::GetIter(Activation& act, ValueView v) {
  PyTypeObject* type = v.object.type();
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && !IsFakeTensor(v.object) && !PyType_Check(v.object.get())) {
    BorrowedRef method = reads_.LookupInType(type, "__iter__");
    if (method && PyFunction_Check(method.get())) {
      const ValueView args[] = {v};
      Value result =
          CallFunction(act, objects_.Adopt(method, reads_.ConstantSource(method)), args, nullptr, Completion::kPush);
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

Value Capture::GetYieldFromIter(Activation& act, ValueView v) {
  if (PyGen_CheckExact(v.object.get()) && objects_.Find(v.object) == nullptr) return native_.GetYieldFromIter(act, v);
  return GetIter(act, v);
}

ForIterOutcome Capture::ForIter(Activation& act, ValueView iterator, Value* item) {
  if (!GuardIterable(act, iterator, "next()")) return ForIterOutcome::kError;
  const ForIterOutcome outcome = boundary_.Run([&] { return native_.ForIter(act, iterator, item); });
  return boundary_.Check() ? outcome : ForIterOutcome::kError;
}

SendOutcome Capture::Send(Activation& act, ValueView receiver, ValueView sent, Value* result) {
  reads_.Consume(sent);
  if (PyCoro_CheckExact(receiver.object.get()) || PyAsyncGen_CheckExact(receiver.object.get())) {
    breaks_.Break(GraphBreakKind::kAsync, "");
    return SendOutcome::kError;
  }
  if (!GuardIterable(act, receiver, "yield from")) return SendOutcome::kError;
  const SendOutcome outcome = boundary_.Run([&] { return native_.Send(act, receiver, sent, result); });
  return boundary_.Check() ? outcome : SendOutcome::kError;
}

bool Capture::UnpackSequence(Activation& act, ValueView v, absl::Span<Value> out) {
  Tracked* t = objects_.Find(v.object);
  if (t != nullptr && t->kind == TrackedKind::kTuple &&
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
  if (t == nullptr && (PyTuple_CheckExact(v.object.get()) || PyList_CheckExact(v.object.get()))) {
    return native_.UnpackSequence(act, v, out);
  }
  const bool fake = IsFakeTensor(v.object);
  if (!GuardIterable(act, v, "unpacking")) return false;
  const bool done = boundary_.RunAsLeaf(fake, [&] { return native_.UnpackSequence(act, v, out); });
  return boundary_.Check() && done;
}

bool Capture::UnpackEx(Activation& act, ValueView v, int before, int after, absl::Span<Value> out) {
  if (!GuardIterable(act, v, "unpacking")) return false;
  const bool fake = IsFakeTensor(v.object);
  const bool done = boundary_.RunAsLeaf(fake, [&] { return native_.UnpackEx(act, v, before, after, out); });
  return boundary_.Check() && done;
}

// ---------------------------------------------------------------- building: items are consumed (rule 7)

Value Capture::BuildTuple(Activation& act, absl::Span<const ValueView> items) {
  for (const ValueView& v : items) reads_.Consume(v);
  return native_.BuildTuple(act, items);
}

Value Capture::BuildList(Activation& act, absl::Span<const ValueView> items) {
  for (const ValueView& v : items) reads_.Consume(v);
  return native_.BuildList(act, items);
}

Value Capture::BuildSet(Activation& act, absl::Span<const ValueView> items) {
  if (!arguments_.PrepareAll(items)) return Value();
  Value v = boundary_.Run([&] { return native_.BuildSet(act, items); });
  return boundary_.Check() ? std::move(v) : Value();
}

Value Capture::BuildMap(Activation& act, absl::Span<const ValueView> items) {
  for (const ValueView& v : items) reads_.Consume(v);
  for (std::size_t i = 0; i < items.size(); i += 2) {
    if (!arguments_.PrepareNative(items[i])) return Value();
  }
  Value v = boundary_.Run([&] { return native_.BuildMap(act, items); });
  return boundary_.Check() ? std::move(v) : Value();
}

Value Capture::BuildConstKeyMap(Activation& act, BorrowedRef keys, absl::Span<const ValueView> values) {
  for (const ValueView& v : values) reads_.Consume(v);
  return native_.BuildConstKeyMap(act, keys, values);
}

Value Capture::BuildString(Activation& act, absl::Span<const ValueView> parts) {
  for (const ValueView& v : parts) reads_.Consume(v);
  return native_.BuildString(act, parts);
}

Value Capture::BuildSlice(Activation& act, ValueView start, ValueView stop, ValueView step) {
  reads_.Consume(start);
  reads_.Consume(stop);
  if (step.object) reads_.Consume(step);
  return native_.BuildSlice(act, start, stop, step);
}

bool Capture::ListAppend(Activation& act, BorrowedRef list, ValueView item) {
  reads_.Consume(item);
  Tracked* t = objects_.Find(list);
  if (t != nullptr && writes_.AppendsUnread(*t)) return writes_.AppendUnread(*t, item.object);
  return contents_.PrepareTarget(list) && native_.ListAppend(act, list, item);
}

bool Capture::SetAdd(Activation& act, BorrowedRef set, ValueView item) {
  if (!contents_.PrepareTarget(set) || !arguments_.PrepareNative(item)) return false;
  const bool done = boundary_.Run([&] { return native_.SetAdd(act, set, item); });
  return boundary_.Check() && done;
}

bool Capture::MapAdd(Activation& act, BorrowedRef map, ValueView key, ValueView value) {
  reads_.Consume(value);
  if (!contents_.PrepareTarget(map) || !arguments_.PrepareNative(key)) return false;
  const bool done = boundary_.Run([&] { return native_.MapAdd(act, map, key, value); });
  return boundary_.Check() && done;
}

bool Capture::ListExtend(Activation& act, BorrowedRef list, ValueView iterable) {
  if (!contents_.PrepareTarget(list)) return false;
  if (!GuardIterable(act, iterable, "unpacking")) return false;
  const bool fake = IsFakeTensor(iterable.object);
  const bool done = boundary_.RunAsLeaf(fake, [&] { return native_.ListExtend(act, list, iterable); });
  return boundary_.Check() && done;
}

bool Capture::SetUpdate(Activation& act, BorrowedRef set, ValueView iterable) {
  if (!contents_.PrepareTarget(set)) return false;
  if (!GuardIterable(act, iterable, "unpacking") || !arguments_.PrepareNative(iterable)) return false;
  const bool done = boundary_.Run([&] { return native_.SetUpdate(act, set, iterable); });
  return boundary_.Check() && done;
}

bool Capture::DictUpdate(Activation& act, BorrowedRef dict, ValueView mapping) {
  if (!contents_.PrepareTarget(dict)) return false;
  if (!GuardIterable(act, mapping, "unpacking") || !arguments_.PrepareNative(mapping)) return false;
  const bool done = boundary_.Run([&] { return native_.DictUpdate(act, dict, mapping); });
  return boundary_.Check() && done;
}

bool Capture::DictMerge(Activation& act, BorrowedRef dict, ValueView mapping, BorrowedRef callable) {
  if (!contents_.PrepareTarget(dict)) return false;
  if (!GuardIterable(act, mapping, "unpacking") || !arguments_.PrepareNative(mapping)) return false;
  const bool done = boundary_.Run([&] { return native_.DictMerge(act, dict, mapping, callable); });
  return boundary_.Check() && done;
}

Value Capture::ListToTuple(Activation& act, ValueView list) {
  return contents_.PrepareTarget(list.object) ? native_.ListToTuple(act, list) : Value();
}

Value Capture::MakeFunction(Activation& act, BorrowedRef code, ValueView defaults, ValueView kwdefaults,
                            ValueView annotations, ValueView closure) {
  Value function = native_.MakeFunction(act, code, defaults, kwdefaults, annotations, closure);
  if (function) objects_.NoteFreshFunction(function.object);
  if (frame_ops::Locals(act.frame) != nullptr) classes_.NoteCode(act, code);
  return function;
}

bool Capture::SetFunctionAttribute(Activation& act, BorrowedRef function, int flag, ValueView part) {
  return native_.SetFunctionAttribute(act, function, flag, part);  // of a function made just now
}

}  // namespace framefuse
