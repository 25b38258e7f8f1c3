#include "symbolic/capture/deferred_warnings.h"

#include <string_view>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "frame_eval/versions/warning_filters.h"
#include "symbolic/capture/code_text.h"
#include "symbolic/capture/journals/frame_stack.h"
#include "symbolic/capture/journals/read_journal.h"
#include "symbolic/tracing/due_warnings.h"

namespace framefuse {
namespace {

PyObject* say = nullptr;  // never released

// The module's names; it lives as long as the process.
PyObject* Warnings() {
  static PyObject* const module = PyImport_ImportModule("warnings");
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

bool IsTextStream(PyObject* stream) {
  static PyObject* const module = PyImport_ImportModule("io");
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

// Where `frame` stands now.
int LineOfFrame(const frame_ops::Frame* frame) {
  return LineOf(frame_ops::Code(frame), frame_ops::LastInstruction(frame));
}

// The frame that warns, if it belongs to the attempt, and none outside of it looks the same. Borrowed.
frame_ops::Frame* FrameThatWarns(PyThreadState* thread, const FrameStack& frames, PyObject* path, long line) {
  frame_ops::Frame* found = nullptr;
  bool inside = true;
  for (frame_ops::Frame* f = frame_ops::CurrentFrame(thread); f != nullptr; f = frame_ops::CallerOf(f)) {
    if (f == frames.real_frame()) continue;
    const bool matches = PyUnicode_Compare(frame_ops::Code(f)->co_filename, path) == 0 && LineOfFrame(f) == line;
    if (matches && !inside) return nullptr;
    if (matches && found == nullptr) found = f;
    inside = inside && f != frames.all().front()->frame;
  }
  return found;
}

// The name under which the frame's module is found again.
Ref ModuleOf(frame_ops::Frame* frame) {
  PyObject* globals = frame_ops::Globals(frame);
  PyObject* name = PyDict_Check(globals) ? PyDict_GetItemString(globals, "__name__") : nullptr;
  if (name == nullptr || !PyUnicode_CheckExact(name)) return Ref();
  PyObject* module = PyDict_GetItem(PyImport_GetModuleDict(), name);
  if (module == nullptr || !PyModule_Check(module) || PyModule_GetDict(module) != globals) return Ref();
  return Ref::Create(name);
}

// Of a category that Python has by itself, made of one text: it is as good as the object that was shown.
Ref TextOf(PyObject* message, PyObject* category) {
  if (!PyType_Check(category) || reinterpret_cast<PyObject*>(Py_TYPE(message)) != category) return Ref();
  auto* type = reinterpret_cast<PyTypeObject*>(category);
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 || PyExceptionInstance_Check(message) == 0) return Ref();
  const Ref args = Ref::Steal(PyObject_GetAttrString(message, "args"));
  if (!args || !PyTuple_CheckExact(args.get()) || PyTuple_GET_SIZE(args.get()) != 1) return (PyErr_Clear(), Ref());
  PyObject* text = PyTuple_GET_ITEM(args.get(), 0);
  return PyUnicode_CheckExact(text) ? Ref::Create(text) : Ref();
}

// What the code came with, as a decorator's closure: not what a call brings, nor a part of that.
bool IsOfCode(SourceId source, const SourceTable& sources) {
  while (sources[source].base != kNoSource) source = sources[source].base;
  const SourceKind root = sources[source].kind;
  return root == SourceKind::kConstant || root == SourceKind::kFunction || root == SourceKind::kGlobals ||
         root == SourceKind::kClosureCell;
}

// A text that another call may bring would be a guard for each; and what torch's C++ code says once a process was said.
bool IsSaidAlike(PyObject* text, ReadJournal& reads) {
  const SourceId source = reads.SourceOfConsumed(text);
  if (source != kNoSource && !IsOfCode(source, reads.sources())) return false;
  const char* utf8 = PyUnicode_AsUTF8(text);
  if (utf8 == nullptr) return (PyErr_Clear(), false);
  const std::string_view words = utf8;
  return words.find("(Triggered internally at ") == std::string_view::npos || tracing::IsSaidEachTime(words);
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

std::optional<DeferredWarning> TakeWarning(PyThreadState* thread, frame_ops::Frame* show, const FrameStack& frames,
                                           ReadJournal& reads) {
  PyObject* shown = frame_ops::Slots(show)[0];
  if (kFiltersMayBeOfAContext || shown == nullptr || say == nullptr || frames.all().empty()) return std::nullopt;
  DeferredWarning w;
  w.category = Ref::Steal(PyObject_GetAttrString(shown, "category"));
  w.path = Ref::Steal(PyObject_GetAttrString(shown, "filename"));
  w.line = Ref::Steal(PyObject_GetAttrString(shown, "lineno"));
  const Ref message = Ref::Steal(PyObject_GetAttrString(shown, "message"));
  const Ref source = Ref::Steal(PyObject_GetAttrString(shown, "source"));
  const bool whole = w.category && w.path && w.line && message && source;
  PyErr_Clear();
  if (!whole || source.get() != Py_None || !PyUnicode_CheckExact(w.path.get()) || !PyLong_CheckExact(w.line.get()))
    return std::nullopt;
  w.text = TextOf(message.get(), w.category.get());
  if (!w.text || !IsSaidAlike(w.text.get(), reads)) return std::nullopt;
  frame_ops::Frame* frame = FrameThatWarns(thread, frames, w.path.get(), PyLong_AsLong(w.line.get()));
  if (frame == nullptr) return std::nullopt;
  w.module = ModuleOf(frame);
  if (!w.module) return std::nullopt;
  const Activation& innermost = *frames.all().back();
  w.code = frame_ops::Code(innermost.frame);
  w.instruction = innermost.instruction;
  w.place = absl::StrCat(FileNameOf(frame_ops::Code(frame)), ":", LineOfFrame(frame));
  return w;
}

std::optional<std::size_t> FirstThatIsHeard(absl::Span<const DeferredWarning> warnings,
                                            absl::Span<PyObject* const> read) {
  for (std::size_t i = 0; i < warnings.size(); ++i) {
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
