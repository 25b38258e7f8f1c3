// What instructions that are new in 3.14 do. Up to 3.13 no code object has them.
#include "frame_eval/versions/internal.h"
// internal.h first: it changes what Python.h declares.
#include "frame_eval/versions/frame_ops.h"

#if PY_VERSION_HEX >= 0x030e0000
extern "C" {
#include "internal/pycore_interpolation.h"
#include "internal/pycore_template.h"
}
#endif

namespace framefuse::frame_ops {

#if PY_VERSION_HEX >= 0x030e0000

PyObject* CommonConstant(PyThreadState* thread, int which) { return thread->interp->common_consts[which]; }

PyObject* NameOf(SpecialMethod which) { return _Py_SpecialMethods[static_cast<int>(which)].name; }

Ref LoadSpecialMethod(PyObject* object, SpecialMethod which) {
  const int number = static_cast<int>(which);
  Ref method = LookupSpecial(object, NameOf(which));
  if (method || PyErr_Occurred() != nullptr) return method;
  const _Py_SpecialMethod& facts = _Py_SpecialMethods[number];
  PyErr_Format(PyExc_TypeError,
               _PyEval_SpecialMethodCanSuggest(object, number) != 0 ? facts.error_suggestion : facts.error, object);
  return nullptr;
}

bool MatchExceptionGroup(Frame* frame, PyObject* exception, PyObject* type, Ref* match, Ref* rest, bool* done) {
  PyObject *matched = nullptr, *others = nullptr;
  *done = _PyEval_ExceptionGroupMatch(frame, exception, type, &matched, &others) == 0;
  *match = Ref::Steal(matched);
  *rest = Ref::Steal(others);
  return true;
}

Ref MakeInterpolation(PyObject* value, PyObject* text, int conversion, PyObject* format) {
  const Ref none = format == nullptr ? Ref::Steal(PyUnicode_FromString("")) : Ref();
  return Ref::Steal(_PyInterpolation_Build(value, text, conversion, format != nullptr ? format : none.get()));
}

Ref MakeTemplate(PyObject* strings, PyObject* interpolations) {
  return Ref::Steal(_PyTemplate_Build(strings, interpolations));
}

#else

namespace {
Ref None() {
  PyErr_SetString(PyExc_SystemError, "framefuse: an instruction of Python 3.14");
  return nullptr;
}
}  // namespace

PyObject* CommonConstant(PyThreadState*, int) { return Py_None; }
PyObject* NameOf(SpecialMethod) { return Py_None; }
Ref LoadSpecialMethod(PyObject*, SpecialMethod) { return None(); }
bool MatchExceptionGroup(Frame*, PyObject*, PyObject*, Ref*, Ref*, bool*) { return false; }
Ref MakeInterpolation(PyObject*, PyObject*, int, PyObject*) { return None(); }
Ref MakeTemplate(PyObject*, PyObject*) { return None(); }

#endif

}  // namespace framefuse::frame_ops
