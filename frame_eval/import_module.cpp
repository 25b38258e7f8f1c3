#include "frame_eval/import_module.h"

namespace framefuse {

Ref ImportModule(const char* name) {
  const Ref full = Ref::Steal(PyUnicode_FromString(name));
  if (!full) return Ref();
  const Ref top = Ref::Steal(PyImport_ImportModuleLevelObject(full, nullptr, nullptr, nullptr, 0));
  if (!top) return Ref();
  Ref module = Ref::Steal(PyImport_GetModule(full));
  if (!module && PyErr_Occurred() == nullptr) PyErr_SetObject(PyExc_KeyError, full);
  return module;
}

}  // namespace framefuse
