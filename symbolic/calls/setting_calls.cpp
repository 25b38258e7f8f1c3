#include "symbolic/calls/setting_calls.h"

#include <string>
#include <utility>

#include "absl/strings/str_replace.h"
#include "frame_eval/import_module.h"
#include "symbolic/ambient/torch_state.h"
#include "symbolic/calls/native_calls.h"
#include "symbolic/journals/backward_phase.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/fx_journal.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

constexpr const char* kOnTheWay = "a setting that operators go by";

Ref TupleOf(absl::Span<const ValueView> values) {
  Ref tuple = Ref::Steal(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (std::size_t i = 0; tuple && i < values.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(values[i].object.get()));
  }
  return tuple;
}

// What torch._C tells now of what the function sets, as the function takes it; null: it is not known.
Ref ArgumentsThatAreSo(BorrowedRef setter, BorrowedRef given) {
  static PyObject* const torch = ImportModule("torch._C").release();
  const std::string own(NameOfCallable(setter));
  const std::string name = absl::StrReplaceAll(own, {{"set_", "get_"}, {"setter", "getter"}});
  const Ref getter = torch == nullptr ? Ref() : Ref::Steal(PyObject_GetAttrString(torch, name.c_str()));
  if (!getter) return Ref();
  const Py_ssize_t count = PyTuple_GET_SIZE(given.get());
  if (count == 3) {  // of a backend, and a kind of operator
    const Ref which = Ref::Steal(PyTuple_GetSlice(given, 0, 2));
    const Ref value = which ? Ref::Steal(PyObject_CallObject(getter, which)) : Ref();
    return value ? Ref::Steal(
                       PyTuple_Pack(3, PyTuple_GET_ITEM(given.get(), 0), PyTuple_GET_ITEM(given.get(), 1), value.get()))
                 : Ref();
  }
  Ref value = Ref::Steal(PyObject_CallNoArgs(getter));
  if (!value || PyTuple_CheckExact(value.get())) return value;
  return Ref::Steal(PyTuple_Pack(1, value.get()));
}

// Of the same types, too: True is no 1.
bool IsAlike(BorrowedRef a, BorrowedRef b) {
  if (a.type() != b.type()) return false;
  if (PyTuple_CheckExact(a.get())) {
    bool alike = PyTuple_GET_SIZE(a.get()) == PyTuple_GET_SIZE(b.get());
    for (Py_ssize_t i = 0; alike && i < PyTuple_GET_SIZE(a.get()); ++i) {
      alike = IsAlike(PyTuple_GET_ITEM(a.get(), i), PyTuple_GET_ITEM(b.get(), i));
    }
    return alike;
  }
  const bool plain = PyBool_Check(a.get()) || PyLong_CheckExact(a.get()) || PyUnicode_CheckExact(a.get());
  return plain && PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

}  // namespace

SettingCalls::SettingCalls(Journals& journals, NativeCalls& natives)
    : breaks_(journals.breaks()),
      fx_(journals.fx()),
      backward_(journals.backward()),
      reads_(journals.reads()),
      arguments_(journals.arguments()),
      writes_(journals.writes()),
      tracer_(journals.tracer()),
      natives_(natives) {}

Value SettingCalls::Read(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  reads_.guards().AddTorchSettings();
  return natives_.CallTorch(act, callable.object, args, kwnames);
}

Value SettingCalls::Set(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  if (backward_.running() || tracer_.in_branch()) return breaks_.Break(GraphBreakKind::kGlobalTorchState, kOnTheWay);
  const TorchState before = TorchState::Current();
  Value result = natives_.CallTorch(act, callable.object, args, kwnames);
  if (!result) return Value();
  const TorchState now = TorchState::Current();
  if (now.SameForOperators(before)) return result;
  if (fx_.keep_values() && now.default_dtype != before.default_dtype) {  // its nodes name no dtype
    return breaks_.Break(GraphBreakKind::kGlobalTorchState, kOnTheWay);
  }
  if (tracer_.NodeCount() == 0) {
    writes_.NoteRunState(now);
    return result;
  }
  if (!writes_.run_state()) writes_.NoteRunState(before);  // the graph has begun under it
  const TorchState& run = *writes_.run_state();
  tracer_.around().set_on_the_way = now.SameForOperators(run)                ? tracing::SetOnTheWay::kNothing
                                    : now.default_dtype != run.default_dtype ? tracing::SetOnTheWay::kDefaultDtype
                                                                             : tracing::SetOnTheWay::kBackends;
  return result;
}

Value SettingCalls::SetAgain(ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  if (backward_.running() || tracer_.in_branch()) return breaks_.Break(GraphBreakKind::kGlobalTorchState, kOnTheWay);
  if (!arguments_.PrepareAll(args)) return Value();
  const Ref given = TupleOf(args);
  const Ref so = given && !kwnames ? ArgumentsThatAreSo(callable.object, given) : Ref();
  PyErr_Clear();
  if (!so || !IsAlike(so, given)) {
    return breaks_.Break(GraphBreakKind::kGlobalTorchState, DescribeCallable(callable.object));
  }
  reads_.guards().AddTorchSettings();
  CachedCall call;
  call.wrapper = Ref::Create(callable.object);
  call.args = given;
  call.deferred = call.always = true;
  writes_.AddCall(std::move(call));
  return Value{Ref::Create(Py_None), kNoSource};
}

}  // namespace framefuse
