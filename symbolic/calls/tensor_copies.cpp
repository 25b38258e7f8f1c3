#include "symbolic/calls/tensor_copies.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "frame_eval/versions/frame_ops.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

TensorCopies::TensorCopies(Journals& journals)
    : tracer_(journals.tracer()), breaks_(journals.breaks()), reads_(journals.reads()), objects_(journals.objects()) {}

Value TensorCopies::Check(absl::Span<const ValueView> args) {
  if (args.size() != 1 || !IsFakeTensor(args[0].object)) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "a deep copy of what is no tensor of this capture");
  }
  const std::string why =
      HasAttributes(args[0].object) ? "a tensor with attributes" : tracer_.WhyNoDeepCopy(args[0].object);
  if (!why.empty()) return breaks_.Break(GraphBreakKind::kTensorFact, absl::StrCat("a deep copy of ", why));
  return Value{Ref::Create(Py_None), kNoSource};
}

// They are copied, too.
bool TensorCopies::HasAttributes(BorrowedRef tensor) {
  const auto any_in = [](PyObject* dict) { return dict != nullptr && PyDict_GET_SIZE(dict) > 0; };
  const Tracked* t = objects_.Find(tensor);
  if (any_in(frame_ops::RawInstanceDict(tensor))) return true;
  if (t == nullptr) return false;
  if (!t->writes.empty() || any_in(frame_ops::RawInstanceDict(t->original))) return true;
  reads_.AddGuard(t->source, GuardKind::kOwnNames, Ref::Steal(PyTuple_New(0)));
  return false;
}

}  // namespace framefuse
