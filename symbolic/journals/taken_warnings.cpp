#include "symbolic/journals/taken_warnings.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "frame_eval/versions/warning_filters.h"
#include "symbolic/journals/frame_stack.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/tracing/due_warnings.h"

namespace framefuse {
namespace {

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

std::optional<DeferredWarning> TakeWarning(PyThreadState* thread, frame_ops::Frame* show, const FrameStack& frames,
                                           ReadJournal& reads) {
  PyObject* shown = frame_ops::Slots(show)[0];
  if (FiltersMayBeOfAContext() || shown == nullptr || !WarningFunction() || frames.all().empty()) return std::nullopt;
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

std::optional<DeferredWarning> NumpyWarningHere(const FrameStack& frames, std::string_view text) {
  if (FiltersMayBeOfAContext() || !WarningFunction() || frames.all().empty()) return std::nullopt;
  const Activation& innermost = *frames.all().back();
  PyCodeObject* code = frame_ops::Code(innermost.frame);
  DeferredWarning w;
  w.code = code;
  w.instruction = innermost.instruction;
  w.text = Ref::Steal(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
  w.category = Ref::Create(PyExc_RuntimeWarning);
  w.path = Ref::Create(code->co_filename);
  w.line = Ref::Steal(PyLong_FromLong(LineOf(code, innermost.instruction)));
  w.module = ModuleOf(innermost.frame);
  w.by_numpy = true;
  if (!w.text || !w.line || !w.module) return std::nullopt;
  w.place = absl::StrCat(FileNameOf(code), ":", LineOf(code, innermost.instruction));
  return w;
}

}  // namespace framefuse
