#include "symbolic/journals/fakes.h"

#include <algorithm>

#include "symbolic/tracing/tracer.h"

namespace framefuse {

bool IsFakeTensor(BorrowedRef object) {
  // No tensor derives from these types, and most questions are about one of theirs.
  constexpr unsigned long kOthers = Py_TPFLAGS_LONG_SUBCLASS | Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_TUPLE_SUBCLASS |
                                    Py_TPFLAGS_UNICODE_SUBCLASS | Py_TPFLAGS_DICT_SUBCLASS;
  PyTypeObject* type = object.type();
  return (type->tp_flags & kOthers) == 0 && type != &PyFloat_Type && tracing::Tracer::IsFake(object);
}

bool AnyFake(absl::Span<const ValueView> args) {
  return std::any_of(args.begin(), args.end(), [](const ValueView& v) {
    if (IsFakeTensor(v.object)) return true;
    PyObject* o = v.object;
    if (!PyTuple_CheckExact(o) && !PyList_CheckExact(o)) return false;
    PyObject** items = PySequence_Fast_ITEMS(o);
    return std::any_of(items, items + PySequence_Fast_GET_SIZE(o),
                       [](PyObject* i) { return tracing::Tracer::IsFake(i); });
  });
}

}  // namespace framefuse
