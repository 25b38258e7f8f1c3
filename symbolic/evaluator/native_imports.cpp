// NativeProtocols: `from module import …`.
#include "frame_eval/versions/frame_ops.h"
#include "symbolic/evaluator/native_protocols.h"

namespace framefuse {
namespace {

Ref Attribute(PyObject* object, const char* name) { return Ref::Steal(PyObject_GetAttrString(object, name)); }

// The attribute, or null without an error where it is missing.
Ref OptionalAttribute(PyObject* object, const char* name) {
  Ref value = Attribute(object, name);
  if (!value && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
  return value;
}

bool IsInitializing(PyObject* module) {
  const Ref spec = Attribute(module, "__spec__");
  if (!spec) {
    PyErr_Clear();
    return false;
  }
  const Ref initializing = OptionalAttribute(spec, "_initializing");
  const int truth = initializing ? PyObject_IsTrue(initializing) : 0;
  PyErr_Clear();
  return truth == 1;
}

void SetImportError(PyObject* module, PyObject* module_name, PyObject* name) {
  const Ref shown =
      module_name != nullptr ? Ref::Create(module_name) : Ref::Steal(PyUnicode_FromString("<unknown module name>"));
  if (!shown) return;
  Ref path = Ref::Steal(PyModule_GetFilenameObject(module));
  Ref message;
  if (!path) {
    PyErr_Clear();
    message = Ref::Steal(PyUnicode_FromFormat("cannot import name %R from %R (unknown location)", name, shown.get()));
  } else {
    message = Ref::Steal(PyUnicode_FromFormat(
        IsInitializing(module)
            ? "cannot import name %R from partially initialized module %R (most likely due to a circular import) (%S)"
            : "cannot import name %R from %R (%S)",
        name, shown.get(), path.get()));
  }
  frame_ops::SetImportError(message, shown, path, name);
}

// Calls assign(name, value) for each name that `from module import *` binds.
template <class Assign>
bool ForEachExported(PyObject* module, Assign assign) {
  Ref names = OptionalAttribute(module, "__all__");
  const bool explicit_all = static_cast<bool>(names);
  if (!names) {
    if (PyErr_Occurred() != nullptr) return false;
    const Ref dict = OptionalAttribute(module, "__dict__");
    if (!dict) {
      if (PyErr_Occurred() == nullptr) {
        PyErr_SetString(PyExc_ImportError, "from-import-* object has no __dict__ and no __all__");
      }
      return false;
    }
    names = Ref::Steal(PyMapping_Keys(dict));
    if (!names) return false;
  }
  for (Py_ssize_t i = 0;; ++i) {
    const Ref name = Ref::Steal(PySequence_GetItem(names, i));
    if (!name) {
      if (!PyErr_ExceptionMatches(PyExc_IndexError)) return false;
      PyErr_Clear();
      return true;
    }
    if (!PyUnicode_Check(name.get())) {
      const Ref module_name = Attribute(module, "__name__");
      if (!module_name) return false;
      if (!PyUnicode_Check(module_name.get())) {
        PyErr_Format(PyExc_TypeError, "module __name__ must be a string, not %.100s", module_name.type()->tp_name);
      } else {
        PyErr_Format(PyExc_TypeError, "%s in %U.%s must be str, not %.100s", explicit_all ? "Item" : "Key",
                     module_name.get(), explicit_all ? "__all__" : "__dict__", name.type()->tp_name);
      }
      return false;
    }
    if (!explicit_all) {
      if (PyUnicode_GET_LENGTH(name.get()) > 0 && PyUnicode_READ_CHAR(name.get(), 0) == '_') continue;
    }
    const Ref value = Ref::Steal(PyObject_GetAttr(module, name));
    if (!value || !assign(name.get(), value.get())) return false;
  }
}

}  // namespace

Value NativeProtocols::ImportFrom(Activation&, ValueView module, BorrowedRef name) {
  Ref value = Ref::Steal(PyObject_GetAttr(module.object, name));
  if (value) return {std::move(value), kNoSource};
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return {};
  PyErr_Clear();
  // A circular import may have made the submodule without binding it yet: sys.modules has it.
  const Ref module_name = OptionalAttribute(module.object, "__name__");
  if (module_name && PyUnicode_Check(module_name.get())) {
    const Ref full_name = Ref::Steal(PyUnicode_FromFormat("%U.%U", module_name.get(), name.get()));
    if (!full_name) return {};
    value = Ref::Steal(PyImport_GetModule(full_name));
    if (value) return {std::move(value), kNoSource};
    if (PyErr_Occurred() != nullptr) return {};
    SetImportError(module.object, module_name, name);
    return {};
  }
  PyErr_Clear();
  SetImportError(module.object, nullptr, name);
  return {};
}

bool NativeProtocols::ImportStar(Activation& act, ValueView module) {
  const Ref locals = Ref::Create(frame_ops::Locals(act.frame));
  if (!locals) {
    PyErr_SetString(PyExc_SystemError, "no locals found during 'import *'");
    return false;
  }
  return ForEachExported(module.object, [&](PyObject* name, PyObject* value) {
    return PyDict_CheckExact(locals.get()) ? PyDict_SetItem(locals, name, value) == 0
                                           : PyObject_SetItem(locals, name, value) == 0;
  });
}

}  // namespace framefuse
