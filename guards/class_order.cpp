#include "guards/class_order.h"

namespace framefuse {
namespace {
bool Is(BorrowedRef name, const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; }
}  // namespace

bool IsOrderOfClasses(BorrowedRef name) { return Is(name, kOrderOfClasses) || Is(name, kBasesOfClass); }

bool HasOrderOfClasses(BorrowedRef type, BorrowedRef name, const std::vector<Held>& classes) {
  auto* t = reinterpret_cast<PyTypeObject*>(type.get());
  PyObject* order = Is(name, kBasesOfClass) ? t->tp_bases : t->tp_mro;
  if (order == nullptr || PyTuple_GET_SIZE(order) != static_cast<Py_ssize_t>(classes.size())) return false;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (!classes[i].Is(PyTuple_GET_ITEM(order, static_cast<Py_ssize_t>(i)))) return false;
  }
  return true;
}

}  // namespace framefuse
