#include "symbolic/protocols/building.h"

#include "symbolic/calls/class_statements.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/fakes.h"
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
#include "symbolic/protocols/iteration.h"

namespace framefuse {
namespace {
Value Noted(Value made) {
  MadeInBackward::Note(made.object);
  return made;
}
}  // namespace

Building::Building(Journals& journals, NativeProtocols& native, ClassStatements& class_statements, Iteration& iteration)
    : breaks_(journals.breaks()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      contents_(journals.contents()),
      arguments_(journals.arguments()),
      native_(native),
      class_statements_(class_statements),
      iteration_(iteration) {}

Value Building::BuildTuple(Activation& act, absl::Span<const ValueView> items) {
  for (const ValueView& v : items) reads_.Move(v);
  return native_.BuildTuple(act, items);
}

Value Building::BuildList(Activation& act, absl::Span<const ValueView> items) {
  for (const ValueView& v : items) reads_.Move(v);
  return Noted(native_.BuildList(act, items));
}

Value Building::BuildSet(Activation& act, absl::Span<const ValueView> items) {
  if (!arguments_.PrepareAll(items)) return Value();
  Value v = boundary_.Run([&] { return native_.BuildSet(act, items); });
  return boundary_.Check() ? Noted(std::move(v)) : Value();
}

Value Building::BuildMap(Activation& act, absl::Span<const ValueView> items) {
  for (const ValueView& v : items) reads_.Move(v);
  for (std::size_t i = 0; i < items.size(); i += 2) {
    if (!arguments_.PrepareNative(items[i])) return Value();
  }
  Value v = boundary_.Run([&] { return native_.BuildMap(act, items); });
  return boundary_.Check() ? Noted(std::move(v)) : Value();
}

Value Building::BuildString(Activation& act, absl::Span<const ValueView> parts) {
  for (const ValueView& v : parts) reads_.Move(v);
  return native_.BuildString(act, parts);
}

Value Building::BuildSlice(Activation& act, ValueView start, ValueView stop, ValueView step) {
  reads_.Move(start);
  reads_.Move(stop);
  if (step.object) reads_.Move(step);
  return native_.BuildSlice(act, start, stop, step);
}

Value Building::BuildInterpolation(Activation& act, ValueView v, BorrowedRef text, int conversion, ValueView format) {
  reads_.Move(v);
  if (format.object) reads_.Consume(format);
  return native_.BuildInterpolation(act, v, text, conversion, format);
}

// C code reads the values through the template: one of before a break would show them as they are outside.
Value Building::BuildTemplate(Activation& act, BorrowedRef strings, BorrowedRef interpolations) {
  bool from_outside = objects_.Find(interpolations) != nullptr;
  for (Py_ssize_t i = 0; !from_outside && i < PyTuple_GET_SIZE(interpolations.get()); ++i) {
    from_outside = objects_.Find(PyTuple_GET_ITEM(interpolations.get(), i)) != nullptr;
  }
  if (from_outside)
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "a part of a template string from before a break");
  return native_.BuildTemplate(act, strings, interpolations);
}

bool Building::ListAppend(Activation& act, BorrowedRef list, ValueView item) {
  reads_.Move(item);
  Tracked* t = objects_.Find(list);
  if (t != nullptr && writes_.AppendsUnread(*t)) return writes_.AppendUnread(*t, item.object);
  return contents_.PrepareTarget(list) && native_.ListAppend(act, list, item);
}

bool Building::SetAdd(Activation& act, BorrowedRef set, ValueView item) {
  if (!contents_.PrepareTarget(set) || !arguments_.PrepareNative(item)) return false;
  const bool done = boundary_.Run([&] { return native_.SetAdd(act, set, item); });
  return boundary_.Check() && done;
}

bool Building::MapAdd(Activation& act, BorrowedRef map, ValueView key, ValueView value) {
  reads_.Move(value);
  if (!contents_.PrepareTarget(map) || !arguments_.PrepareNative(key)) return false;
  const bool done = boundary_.Run([&] { return native_.MapAdd(act, map, key, value); });
  return boundary_.Check() && done;
}

bool Building::ListExtend(Activation& act, BorrowedRef list, ValueView iterable) {
  if (!contents_.PrepareTarget(list)) return false;
  if (!iteration_.GuardIterable(act, iterable, "unpacking")) return false;
  const bool fake = IsFakeTensor(iterable.object);
  const bool done = boundary_.RunAsLeaf(
      fake, [&] { return native_.ListExtend(act, list, iterable); }, iterable.object);
  return boundary_.Check() && done;
}

bool Building::SetUpdate(Activation& act, BorrowedRef set, ValueView iterable) {
  if (!contents_.PrepareTarget(set)) return false;
  if (!iteration_.GuardIterable(act, iterable, "unpacking") || !arguments_.PrepareNative(iterable)) return false;
  const bool done = boundary_.Run([&] { return native_.SetUpdate(act, set, iterable); });
  return boundary_.Check() && done;
}

// Of names nothing is looked at but the names: a number among the values stays symbolic.
bool Building::PrepareMerged(ValueView mapping) {
  const bool fresh = PyDict_CheckExact(mapping.object.get()) && objects_.Find(mapping.object) == nullptr;
  if (!fresh) return arguments_.PrepareNative(mapping);
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  while (PyDict_Next(mapping.object.get(), &position, &key, nullptr) != 0) {
    if (!PyUnicode_CheckExact(key)) return arguments_.PrepareNative(mapping);
  }
  return arguments_.PrepareOuter(mapping);
}

bool Building::DictUpdate(Activation& act, BorrowedRef dict, ValueView mapping, BorrowedRef callable) {
  if (!contents_.PrepareTarget(dict)) return false;
  if (!iteration_.GuardIterable(act, mapping, "unpacking") || !PrepareMerged(mapping)) return false;
  const bool done = boundary_.Run([&] { return native_.DictUpdate(act, dict, mapping, callable); });
  return boundary_.Check() && done;
}

Value Building::ListToTuple(Activation& act, ValueView list) {
  return contents_.PrepareTarget(list.object) ? native_.ListToTuple(act, list) : Value();
}

// C code hands it to the function's frames: what lived across a break is guarded here, or nowhere.
bool Building::FillPart(ValueView part) { return !part.object || arguments_.PrepareOuter(part); }

Value Building::MakeFunction(Activation& act, BorrowedRef code, ValueView defaults, ValueView kwdefaults,
                             ValueView annotations, ValueView closure) {
  for (const ValueView& part : {defaults, kwdefaults, annotations}) {
    if (!FillPart(part)) return Value();
  }
  Value function = native_.MakeFunction(act, code, defaults, kwdefaults, annotations, closure);
  if (function) objects_.NoteFreshFunction(function.object);
  if (frame_ops::Locals(act.frame) != nullptr) class_statements_.NoteCode(act, code);
  return function;
}

bool Building::SetFunctionAttribute(Activation& act, BorrowedRef function, int flag, ValueView part) {
  if (objects_.Find(function) != nullptr) {
    return breaks_.BreakFalse(GraphBreakKind::kUnsupportedWrite, "a part of a function that was made before a break");
  }
  constexpr int kClosure = 0x08;  // cells are read where they are used
  if (flag != kClosure && !FillPart(part)) return false;
  return native_.SetFunctionAttribute(act, function, flag, part);  // of a function made just now
}

}  // namespace framefuse
