#include "symbolic/dispatch/frame_questions.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

#include "frame_eval/versions/dict_reads.h"

namespace framefuse {

bool HasOnlyNames(PyObject* builtins) {
  if (frame_ops::HasOnlyStringKeys(builtins)) return true;
  PyObject *key, *value;
  for (Py_ssize_t position = 0; PyDict_Next(builtins, &position, &key, &value) != 0;) {
    if (!PyUnicode_CheckExact(key)) return false;
  }
  return true;
}

bool HasTensorInSlots(const FrameView& view) {
  auto* const tensor = reinterpret_cast<PyTypeObject*>(THPVariableClass);
  return std::any_of(view.slots, view.slots + view.slot_count,
                     [&](PyObject* o) { return o != nullptr && PyObject_TypeCheck(o, tensor) != 0; });
}

}  // namespace framefuse
