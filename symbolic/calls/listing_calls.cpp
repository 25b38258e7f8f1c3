#include "symbolic/calls/listing_calls.h"

#include "symbolic/calls/call_evaluator.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/descriptors.h"

namespace framefuse {

ListingCalls::ListingCalls(Journals& journals, CallEvaluator& calls)
    : breaks_(journals.breaks()), reads_(journals.reads()), objects_(journals.objects()), calls_(calls) {}

Value ListingCalls::CallDir(Activation& act, ValueView callable, absl::Span<const ValueView> args,
                            BorrowedRef kwnames) {
  static PyObject* const sorted = PyDict_GetItemString(PyEval_GetBuiltins(), "sorted");
  const bool one = !kwnames && args.size() == 1 && (args[0].object.type()->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
  const BorrowedRef method = one ? reads_.LookupInType(args[0].object.type(), "__dir__") : BorrowedRef();
  if (!IsPythonFunction(method) || sorted == nullptr) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
  }
  const Value names = calls_.CallFunction(act, objects_.Adopt(method, reads_.ConstantSource(method)), args.first(1),
                                          nullptr, Completion::kCallback);
  if (!names) return Value();
  const ValueView listed[] = {names};  // as C code does: list(), and sort()
  return calls_.CallWith(act, ValueView(sorted, kNoSource), listed, nullptr, Completion::kCallback);
}

}  // namespace framefuse
