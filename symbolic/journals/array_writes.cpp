#include "symbolic/journals/array_writes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "frame_eval/hook.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/fx_journal.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/leaf_types.h"
#include "symbolic/rules/number_arrays.h"
#include "symbolic/rules/self_holding.h"

namespace framefuse {
namespace {

// What the memory belongs to; null: no array.
Ref RootOf(BorrowedRef array) {
  Ref part = Ref::Create(array);
  while (part && IsArray(part)) {
    Ref base = Ref::Steal(PyObject_GetAttrString(part, "base"));
    if (base.get() == Py_None) return part;
    part = std::move(base);
  }
  PyErr_Clear();
  return Ref();
}

// A number, a place, or an array whose numbers guards decide.
bool IsPlain(BorrowedRef object) {
  PyObject* o = object;
  if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
    bool all = true;
    for (Py_ssize_t i = 0; all && i < PySequence_Fast_GET_SIZE(o); ++i) all = IsPlain(PySequence_Fast_GET_ITEM(o, i));
    return all;
  }
  if (PySlice_Check(o)) {
    auto* s = reinterpret_cast<PySliceObject*>(o);
    return IsPlain(s->start) && IsPlain(s->stop) && IsPlain(s->step);
  }
  return o == Py_Ellipsis || IsForNumpy(object) || IsLeaf(object);
}

}  // namespace

bool IsOwnArray(const ObjectTable& objects, BorrowedRef array) {
  if (!IsNumberArray(array) || objects.Find(array) != nullptr) return false;
  const Ref root = RootOf(array);
  if (!root || objects.Find(root) != nullptr || !IsNumberArray(root)) return false;
  const auto& all = objects.tracked().all();
  return std::none_of(all.begin(), all.end(),
                      [&](const auto& t) { return IsArray(t->original) && RootOf(t->original).get() == root.get(); });
}

Value ArrayWriter::Write(BorrowedRef function, absl::Span<const ValueView> operands) const {
  const auto is_plain = [](const ValueView& v) { return !HoldsItself(v.object) && IsPlain(v.object); };
  // A graph for an FX backend makes its constants of the array itself, later.
  if (fx.keep_values() || !IsOwnArray(objects, operands[0].object) ||
      !std::all_of(operands.begin(), operands.end(), is_plain)) {
    return breaks.Break(GraphBreakKind::kUnsupportedWrite, "an array of numpy");
  }
  if (!arguments.PrepareAll(operands)) return Value();
  std::vector<PyObject*> all;
  for (const ValueView& v : operands) all.push_back(v.object.get());
  boundary.RaiseNumpyErrors();
  const HookScope own(HookMode::kOff);
  return boundary.Wrap(Ref::Steal(PyObject_Vectorcall(function.get(), all.data(), all.size(), nullptr)));
}

}  // namespace framefuse
