#include "symbolic/journals/random_draws.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "frame_eval/hook.h"
#include "frame_eval/import_module.h"
#include "symbolic/entry/drawn_numbers.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/leaf_types.h"
#include "symbolic/rules/random_methods.h"
#include "symbolic/tracing/numbers.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

bool RandomDraws::IsDrawn(int input) const {
  return std::any_of(all_.begin(), all_.end(), [&](const One& one) { return one.input == input; });
}

// Numbers, None and texts; of numbers that change those that are known before the graph runs.
bool RandomDraws::TakeArguments(absl::Span<const ValueView> args, One* one) {
  const tracing::Numbers& numbers = tracer_.numbers();
  for (const ValueView& v : args) {
    if (!IsLeaf(v.object)) return false;
    const std::optional<ir::Dim> symbolic = numbers.IsSymbolic(v.object) ? numbers.Find(v.object) : std::nullopt;
    if (!symbolic || symbolic->is_constant()) {
      reads_.Consume(v);
    } else if (tracer_.sizes().expressions().LastUnbacked(*symbolic) >= 0) {
      return false;
    }
    one->args.push_back(Ref::Create(v.object));
  }
  return true;
}

// What it draws next, as a copy of it tells. Null: more than a number, or it raises.
Ref RandomDraws::TensorAtHand(Tracked& generator, const One& one, bool* is_float) {
  const HookScope native(HookMode::kOff);
  const tracing::Tracer::Suspended off;
  Ref& copy = copies_[generator.original.get()];
  if (!copy) {
    static PyObject* const module = ImportModule("copy").release();
    copy = Ref::Steal(PyObject_CallMethod(module, "deepcopy", "O", generator.original.get()));
  }
  const Ref drawn = copy ? CallMethodOf(copy, one.method, one.args, one.kwnames) : Ref();
  Ref tensor = drawn ? TensorOfDrawn(drawn, is_float) : Ref();
  PyErr_Clear();
  return tensor;
}

Value RandomDraws::Draw(BorrowedRef method, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const auto refuse = [&] { return breaks_.Break(GraphBreakKind::kRandomState, DescribeCallable(method)); };
  Tracked* t = args.empty() ? nullptr : objects_.Find(args[0].object);
  if (t == nullptr || KindOfGenerator(t->original.type()) == GeneratorKind::kNone || t->mutated()) return refuse();
  if (!tracer_.sizes().TakesUnbacked() || for_python_) return refuse();
  One one{t->representative, Ref::Create(method), {}, Ref::Create(kwnames), false, 0};
  if (!TakeArguments(args.subspan(1), &one)) return refuse();
  const Ref real = TensorAtHand(*t, one, &one.is_float);
  if (!real) return refuse();
  one.input = static_cast<int>(objects_.tensor_inputs().size());
  absl::StatusOr<Ref> fake = tracer_.MakeInput(real, tracing::InputRole::kDrawn, one.input);
  if (!fake.ok()) return refuse();
  objects_.AddDrawn(t->source, real, *fake);
  Ref number = tracer_.sizes().UnbackedNumbersOf(*fake);
  if (!number) return refuse();
  tracer_.numbers().NoteDrawn(number);
  t->drawn = true;
  all_.push_back(std::move(one));
  return Value{std::move(number), kNoSource};
}

}  // namespace framefuse
