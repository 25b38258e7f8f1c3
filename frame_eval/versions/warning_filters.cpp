#include "frame_eval/versions/warning_filters.h"

#include <Python.h>

#include "frame_eval/ref.h"

namespace framefuse {

bool FiltersMayBeOfAContext() {
#if PY_VERSION_HEX >= 0x030E0000
  static const bool may_be = [] {
    PyObject* flags = PySys_GetObject("flags");
    const Ref flag = Ref::Steal(flags == nullptr ? nullptr : PyObject_GetAttrString(flags, "context_aware_warnings"));
    const int on = flag ? PyObject_IsTrue(flag.get()) : -1;
    if (on < 0) PyErr_Clear();
    return on != 0;
  }();
  return may_be;
#else
  return false;
#endif
}

}  // namespace framefuse
