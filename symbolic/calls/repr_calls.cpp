#include "symbolic/calls/repr_calls.h"

#include "absl/algorithm/container.h"
#include "symbolic/calls/call_evaluator.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/object_contents.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {

ReprCalls::ReprCalls(Journals& journals, CallEvaluator& calls)
    : breaks_(journals.breaks()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      contents_(journals.contents()),
      calls_(calls) {}

// Nothing: it holds nothing under the name.
std::optional<Value> ReprCalls::InClosure(ValueView wrapper, const char* name) {
  auto* function = reinterpret_cast<PyFunctionObject*>(wrapper.object.get());
  const auto index = static_cast<std::int32_t>(IndexInClosure(function, name));
  if (index < 0) return std::nullopt;
  PyObject* cell = PyTuple_GET_ITEM(function->func_closure, index);
  const Tracked* t = objects_.Find(wrapper.object);
  if (t == nullptr && PyCell_GET(cell) == nullptr) return std::nullopt;
  if (t == nullptr) return Value{Ref::Create(PyCell_GET(cell)), kNoSource};
  const Value adopted =
      objects_.Adopt(cell, reads_.sources().Intern(SourceKind::kFunctionCell, t->source, index, nullptr));
  if (!adopted) return Value();
  Tracked* known = objects_.Find(adopted.object);
  return known != nullptr ? contents_.InCell(*known) : std::nullopt;
}

Value ReprCalls::Call(Activation& act, ValueView wrapper, ValueView self) {
  const Value running = InClosure(wrapper, "repr_running").value_or(Value());
  const Value function = running ? InClosure(wrapper, "user_function").value_or(Value()) : Value();
  if (!function || !PySet_CheckExact(running.object.get())) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, "a __repr__ that knows no function");
  }
  Tracked* t = objects_.Find(running.object);
  if ((t != nullptr ? contents_.Length(*t) : PySet_GET_SIZE(running.object.get())) != 0) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "the __repr__ of an object that is under way");
  }
  reads_.Consume(self);
  const std::pair<BorrowedRef, BorrowedRef> key(function.object, self.object);
  if (absl::c_linear_search(under_way_, key)) {
    if (std::optional<Value> fill = InClosure(wrapper, "fillvalue")) return *std::move(fill);
    return Value{Ref::Steal(PyUnicode_FromString("...")), kNoSource};
  }
  under_way_.push_back(key);
  const ValueView args[] = {self};
  Value text = calls_.CallWith(act, function, args, nullptr, Completion::kCallback);
  under_way_.pop_back();
  return text;
}

}  // namespace framefuse
