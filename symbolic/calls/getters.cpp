#include "symbolic/calls/getters.h"

#include <utility>

#include "symbolic/calls/call_evaluator.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/builtin_types.h"

namespace framefuse {
namespace {

bool IsGetter(PyTypeObject* type) { return type == AttrGetterType() || type == MethodCallerType(); }

}  // namespace

Getters::Getters(Journals& journals, CallEvaluator& calls)
    : breaks_(journals.breaks()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      calls_(calls) {}

bool Getters::Replace(Activation& act, absl::Span<const ValueView> args, Replaced* replaced) {
  replaced->args.assign(args.begin(), args.end());
  for (ValueView& arg : replaced->args) {
    if (!IsGetter(arg.object.type())) continue;
    Value function = FunctionFor(act, arg);
    if (!function) return false;
    arg = ValueView(function.object, kNoSource);
    replaced->made.push_back(std::move(function));
  }
  return true;
}

Value Getters::FunctionFor(Activation& act, ValueView getter) {
  PyTypeObject* type = getter.object.type();
  const Tracked* t = objects_.Find(getter.object);
  const Ref reduced = Ref::Steal(PyObject_CallMethod(getter.object, "__reduce__", nullptr));
  if (!reduced) return Value();
  PyObject* parts = PyTuple_GET_ITEM(reduced.get(), 1);
  if (PyTuple_GET_ITEM(reduced.get(), 0) != reinterpret_cast<PyObject*>(type)) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, "operator.methodcaller with keywords");
  }
  ValueVector given;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); ++i) {
    const BorrowedRef part(PyTuple_GET_ITEM(parts, i));
    if (t != nullptr && !IsLeaf(part)) {
      return breaks_.Break(GraphBreakKind::kUnlistedCallable, "operator.methodcaller from outside");
    }
    given.emplace_back(part, kNoSource);
  }
  if (t != nullptr) reads_.AddGuard(t->source, GuardKind::kIdentity, t->original);
  const BorrowedRef maker = FunctionOf(type == AttrGetterType() ? StandIn::kAttributes : StandIn::kMethod);
  return boundary_.Catching(
      [&] { return calls_.CallWith(act, ValueView(maker, kNoSource), given, nullptr, Completion::kCallback); });
}

}  // namespace framefuse
