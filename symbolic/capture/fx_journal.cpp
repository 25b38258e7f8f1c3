#include "symbolic/capture/fx_journal.h"

namespace framefuse {
namespace {

constexpr int kMaxDepth = 32;

// A value as it is now: the program may go on to write its lists and dicts. What they hold stays the same objects.
Ref AsItIs(BorrowedRef value, int depth = 0) {
  PyObject* o = value.get();
  const bool has_parts = o != nullptr && (PyTuple_CheckExact(o) || PyList_CheckExact(o) || PyDict_CheckExact(o));
  if (!has_parts || depth == kMaxDepth) return Ref::Create(o);
  if (PyDict_CheckExact(o)) {
    Ref copy = Ref::Steal(PyDict_Copy(o));
    PyObject *key, *part;
    Py_ssize_t position = 0;
    while (copy && PyDict_Next(o, &position, &key, &part)) {
      const Ref as_it_is = AsItIs(part, depth + 1);
      PyDict_SetItem(copy, key, as_it_is);
    }
    return copy;
  }
  const Py_ssize_t size = Py_SIZE(o);
  PyObject** items = PySequence_Fast_ITEMS(o);
  Ref copy = Ref::Steal(PyTuple_CheckExact(o) ? PyTuple_New(size) : PyList_New(size));
  for (Py_ssize_t i = 0; copy && i < size; ++i) {
    PySequence_Fast_ITEMS(copy.get())[i] = AsItIs(items[i], depth + 1).release();
  }
  return copy;
}

}  // namespace

void FxJournal::Record(FxNode::Op op, BorrowedRef target, BorrowedRef args, BorrowedRef kwargs, BorrowedRef result) {
  FxNode node;
  node.op = op;
  node.target = Ref::Create(target);
  if (keep_values_) {
    node.args = AsItIs(args);
    node.kwargs = AsItIs(kwargs);
    node.result = AsItIs(result);
  }
  nodes_.push_back(std::move(node));
}

}  // namespace framefuse
