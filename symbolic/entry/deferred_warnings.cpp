#include "symbolic/entry/deferred_warnings.h"

#include <string_view>
#include <utility>

#include "absl/algorithm/container.h"
#include "frame_eval/hook.h"
#include "frame_eval/import_module.h"

namespace framefuse {
namespace {

PyObject* say = nullptr;  // never released

// The module's names; it lives as long as the process.
PyObject* Warnings() {
  static PyObject* const module = ImportModule("warnings").release();
  return module != nullptr ? PyModule_GetDict(module) : nullptr;
}
PyObject* Named(const char* name) {
  PyObject* names = Warnings();
  return names != nullptr ? PyDict_GetItemString(names, name) : nullptr;
}

// As they were when framefuse was imported: what has been replaced before is never that.
struct Originals {
  PyObject* names[4];
};
constexpr const char* kShown[] = {"_showwarnmsg", "_formatwarnmsg", "_formatwarnmsg_impl", "_showwarnmsg_impl"};
const Originals& AsItWas() {
  static const Originals all = [] {
    Originals o{};
    for (std::size_t i = 0; i < 4; ++i) {
      PyObject* found = Named(kShown[i]);
      const bool own = found != nullptr && PyFunction_Check(found) &&
                       PyUnicode_CompareWithASCIIString(
                           reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(found))->co_name, kShown[i]) == 0;
      o.names[i] = own ? Py_NewRef(found) : nullptr;
    }
    return o;
  }();
  return all;
}

// A filter's text or pattern; nullopt: an error of its own.
std::optional<bool> Matches(PyObject* pattern, PyObject* text) {
  if (pattern == Py_None) return true;
  if (PyUnicode_CheckExact(pattern)) return PyUnicode_Compare(pattern, text) == 0;
  const Ref found = Ref::Steal(PyObject_CallMethod(pattern, "match", "O", text));
  if (!found) return (PyErr_Clear(), std::nullopt);
  return found.get() != Py_None;
}

// (action, text, category, module, line)
std::optional<bool> Matches(PyObject* filter, const DeferredWarning& w) {
  if (!PyTuple_Check(filter) || PyTuple_GET_SIZE(filter) != 5) return std::nullopt;
  const int is_kind = PyObject_IsSubclass(w.category.get(), PyTuple_GET_ITEM(filter, 2));
  const long line = PyLong_AsLong(PyTuple_GET_ITEM(filter, 4));
  const bool failed = is_kind < 0 || PyErr_Occurred() != nullptr;
  PyErr_Clear();
  if (failed) return std::nullopt;
  if (is_kind == 0 || (line != 0 && line != PyLong_AsLong(w.line.get()))) return false;
  const std::optional<bool> text = Matches(PyTuple_GET_ITEM(filter, 1), w.text.get());
  if (!text || !*text) return text;
  return Matches(PyTuple_GET_ITEM(filter, 3), w.module.get());
}

// Borrowed; null: that cannot be said.
PyObject* ActionFor(const DeferredWarning& w) {
  PyObject* filters = Named("filters");
  if (filters == nullptr || !PyList_Check(filters)) return nullptr;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(filters); ++i) {
    PyObject* filter = PyList_GET_ITEM(filters, i);
    const std::optional<bool> matches = Matches(filter, w);
    if (!matches) return nullptr;
    if (*matches) return PyTuple_GET_ITEM(filter, 0);
  }
  return Named("defaultaction");
}

// Of numpy's, text and place are known when it comes.
bool AnyFilterMakesErrors(const DeferredWarning& w) {
  PyObject* filters = Named("filters");
  if (filters == nullptr || !PyList_Check(filters)) return true;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(filters); ++i) {
    PyObject* filter = PyList_GET_ITEM(filters, i);
    if (!PyTuple_Check(filter) || PyTuple_GET_SIZE(filter) != 5) return true;
    PyObject* action = PyTuple_GET_ITEM(filter, 0);
    if (!PyUnicode_Check(action)) return true;
    if (PyUnicode_CompareWithASCIIString(action, "error") != 0) continue;
    if (PyObject_IsSubclass(w.category.get(), PyTuple_GET_ITEM(filter, 2)) != 0) return (PyErr_Clear(), true);
  }
  return false;
}

bool IsTextStream(PyObject* stream) {
  static PyObject* const module = ImportModule("io").release();
  if (stream == nullptr || stream == Py_None) return true;
  for (const char* name : {"TextIOWrapper", "StringIO"}) {
    PyObject* type = module != nullptr ? PyDict_GetItemString(PyModule_GetDict(module), name) : nullptr;
    if (type != nullptr && PyObject_IsInstance(stream, type) == 1) return true;
  }
  PyErr_Clear();
  return false;
}

// Whether only the library's own code, or a list that the program does not read, hears what is shown.
bool IsShownPlainly(absl::Span<PyObject* const> read) {
  const Originals& original = AsItWas();
  for (std::size_t i = 0; i < 3; ++i) {
    if (original.names[i] == nullptr || Named(kShown[i]) != original.names[i]) return false;
  }
  if (Named("showwarning") != Named("_showwarning_orig") || Named("formatwarning") != Named("_formatwarning_orig"))
    return false;
  PyObject* shows = Named(kShown[3]);
  if (shows == original.names[3] && shows != nullptr) return IsTextStream(PySys_GetObject("stderr"));
  if (shows == nullptr || !PyCFunction_Check(shows)) return false;
  PyObject* list = PyCFunction_GET_SELF(shows);
  const std::string_view name = reinterpret_cast<PyCFunctionObject*>(shows)->m_ml->ml_name;
  return list != nullptr && PyList_CheckExact(list) && name == "append" && !absl::c_linear_search(read, list);
}

// Numpy's settings (np.seterr, np.errstate) are those that it came with.
bool NumpyWarns() {
  static PyObject* const asks = [] {
    const Ref numpy = ImportModule("numpy");
    return numpy ? PyObject_GetAttrString(numpy, "geterr") : nullptr;
  }();
  static PyObject* const usual =
      Py_BuildValue("{ssssssss}", "divide", "warn", "over", "warn", "under", "ignore", "invalid", "warn");
  const HookScope own(HookMode::kOff);
  const Ref now = asks != nullptr ? Ref::Steal(PyObject_CallNoArgs(asks)) : Ref();
  const bool same = now && PyObject_RichCompareBool(now, usual, Py_EQ) == 1;
  PyErr_Clear();
  return same;
}

}  // namespace

Ref DeferredWarning::AsTuple() const {
  return Ref::Steal(PyTuple_Pack(5, text.get(), category.get(), path.get(), line.get(), module.get()));
}

void SetWarningFunction(BorrowedRef function) {
  AsItWas();
  Py_XDECREF(std::exchange(say, Py_NewRef(function.get())));
}
BorrowedRef WarningFunction() { return say; }

std::optional<std::size_t> FirstThatIsHeard(absl::Span<const DeferredWarning> warnings,
                                            absl::Span<PyObject* const> read) {
  for (std::size_t i = 0; i < warnings.size(); ++i) {
    if (warnings[i].by_numpy && (!NumpyWarns() || AnyFilterMakesErrors(warnings[i]))) return i;
    PyObject* action = ActionFor(warnings[i]);
    if (action == nullptr || !PyUnicode_Check(action)) return i;
    if (PyUnicode_CompareWithASCIIString(action, "ignore") == 0) continue;
    if (PyUnicode_CompareWithASCIIString(action, "error") == 0 || !IsShownPlainly(read)) return i;
  }
  return std::nullopt;
}

std::vector<PyObject*> WhatDecidesOfWarnings() {
  std::vector<PyObject*> all;
  for (PyObject* o : {Warnings(), Named("filters")}) {
    if (o != nullptr) all.push_back(o);
  }
  return all;
}

}  // namespace framefuse
