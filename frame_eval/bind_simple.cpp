// Binds the arguments of a call to slots where that needs no keyword, default or star: the fast way in.
#include "frame_eval/compiled_function.h"

namespace framefuse {
namespace {

constexpr int kOtherSignature = CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;

bool IsSimple(const PyCodeObject* code) {
  return (code->co_flags & kOtherSignature) == 0 && (code->co_flags & CO_OPTIMIZED) != 0 &&
         code->co_kwonlyargcount == 0 && code->co_nfreevars == 0 && code->co_ncellvars == 0;
}

// Index of the parameter that a keyword names, or -1. Both sides are interned, save for names made at run time.
int FindParameter(const PyCodeObject* code, PyObject* name) {
  PyObject* names = code->co_localsplusnames;
  for (int i = code->co_posonlyargcount; i < code->co_argcount; ++i) {
    if (PyTuple_GET_ITEM(names, i) == name) return i;
  }
  if (!PyUnicode_CheckExact(name)) return -1;
  for (int i = code->co_posonlyargcount; i < code->co_argcount; ++i) {
    if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), name) == 0) return i;
  }
  return -1;
}

bool BindKeywords(const PyCodeObject* code, PyObject* const* values, PyObject* kwnames, PyObject** slots) {
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); ++k) {
    const int i = FindParameter(code, PyTuple_GET_ITEM(kwnames, k));
    if (i < 0 || slots[i] != nullptr) return false;
    slots[i] = values[k];
  }
  return true;
}

bool FillDefaults(const PyCodeObject* code, PyObject* defaults, Py_ssize_t first, PyObject** slots) {
  const Py_ssize_t count = defaults != nullptr ? PyTuple_GET_SIZE(defaults) : 0;
  const Py_ssize_t required = code->co_argcount - count;
  for (Py_ssize_t i = first; i < code->co_argcount; ++i) {
    if (slots[i] != nullptr) continue;
    if (i < required) return false;
    slots[i] = PyTuple_GET_ITEM(defaults, i - required);
  }
  return true;
}

}  // namespace

FrameView BoundArguments::View(BorrowedRefOf<PyFunctionObject> function) const {
  FrameView view;
  view.function = function;
  view.code = reinterpret_cast<PyCodeObject*>(function->func_code);
  view.globals = function->func_globals;
  view.builtins = function->func_builtins;
  view.slots = slots.data();
  view.slot_count = static_cast<int>(slots.size());
  return view;
}

bool BindSimple(BorrowedRefOf<PyFunctionObject> function, PyObject* const* args, std::size_t nargsf, PyObject* kwnames,
                BoundArguments* bound) {
  const auto* code = reinterpret_cast<const PyCodeObject*>(function->func_code);
  if (!IsSimple(code)) return false;
  const Py_ssize_t given = PyVectorcall_NARGS(nargsf);
  if (given > code->co_argcount) return false;
  bound->slots.assign(static_cast<std::size_t>(code->co_nlocalsplus), nullptr);
  PyObject** slots = bound->slots.data();
  for (Py_ssize_t i = 0; i < given; ++i) slots[i] = args[i];
  if (kwnames != nullptr && !BindKeywords(code, args + given, kwnames, slots)) return false;
  if (given == code->co_argcount) return true;
  return FillDefaults(code, function->func_defaults, given, slots);
}

}  // namespace framefuse
