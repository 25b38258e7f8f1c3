#include "symbolic/capture/builtin_types.h"

#include "common/check.h"
#include "frame_eval/ref.h"

namespace framefuse {
namespace {

PyTypeObject* NamedType(const char* module, const char* name) {
  Ref m = Ref::Steal(PyImport_ImportModule(module));
  FF_CHECK(m);
  return reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(m, name));
}

}  // namespace

PyTypeObject* DequeType() {
  static PyTypeObject* type = NamedType("collections", "deque");
  return type;
}
PyTypeObject* DefaultDictType() {
  static PyTypeObject* type = NamedType("collections", "defaultdict");
  return type;
}
PyTypeObject* PartialType() {
  static PyTypeObject* type = NamedType("functools", "partial");
  return type;
}
PyTypeObject* LruCacheType() {
  static PyTypeObject* type = NamedType("functools", "_lru_cache_wrapper");
  return type;
}

bool IsStructSequenceType(PyTypeObject* type) {
  return PyType_IsSubtype(type, &PyTuple_Type) && type != &PyTuple_Type &&
         PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), "n_sequence_fields") != 0;
}

void LoadBuiltinTypes() {
  DequeType();
  DefaultDictType();
  PartialType();
  LruCacheType();
}

}  // namespace framefuse
