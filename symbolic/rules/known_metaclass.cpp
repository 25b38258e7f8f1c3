#include "symbolic/rules/known_metaclass.h"
#include "frame_eval/import_module.h"

namespace framefuse {
namespace {

PyObject* Attribute(const char* module, const char* name) {
  const Ref m = ImportModule(module);
  PyObject* found = m ? PyObject_GetAttrString(m, name) : nullptr;
  PyErr_Clear();
  return found;
}

}  // namespace

KnownMetaclass FindKnownMetaclass(BorrowedRef metaclass) {
  static PyObject* const abstract = Attribute("abc", "ABCMeta");
  static PyObject* const function = Attribute("torch.autograd.function", "FunctionMeta");
  static PyObject* const enumeration = Attribute("enum", "EnumType");
  static PyObject* const named_tuple = Attribute("typing", "NamedTupleMeta");
  PyObject* m = metaclass.get();
  if (m == reinterpret_cast<PyObject*>(&PyType_Type)) return KnownMetaclass::kType;
  if (m != nullptr && m == abstract) return KnownMetaclass::kAbstract;
  if (m != nullptr && m == function) return KnownMetaclass::kFunction;
  if (m != nullptr && m == enumeration) return KnownMetaclass::kEnum;
  return m != nullptr && m == named_tuple ? KnownMetaclass::kNamedTuple : KnownMetaclass::kNone;
}

PyObject* ClassOfBase(BorrowedRef base) {
  static PyObject* const function = Attribute("typing", "NamedTuple");
  static PyObject* const cls = Attribute("typing", "_NamedTuple");
  return function != nullptr && base.get() == function ? cls : nullptr;
}

PyTypeObject* WinningMetaclass(PyTypeObject* given, PyObject* const* bases, std::size_t count) {
  PyTypeObject* winner = given;
  for (std::size_t i = 0; i < count; ++i) {
    PyTypeObject* of_base = Py_TYPE(bases[i]);
    if (PyType_IsSubtype(winner, of_base) != 0) continue;
    if (PyType_IsSubtype(of_base, winner) == 0) return nullptr;
    winner = of_base;
  }
  return winner;
}

}  // namespace framefuse
