#include "symbolic/frames/user_stack.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "frame_eval/versions/outer_frames.h"
#include "symbolic/frames/installed_code.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {
namespace {

constexpr std::size_t kMostFrames = 100;
constexpr std::size_t kMostModules = 100'000;
constexpr std::size_t kLongestExpression = 200;

// What an instruction stands for in the source, on one line.
std::string ExpressionOf(PyCodeObject* code, int instruction) {
  int line = -1, column = -1, end_line = -1, end_column = -1;
  if (instruction < 0 || PyCode_Addr2Location(code, instruction * 2, &line, &column, &end_line, &end_column) == 0) {
    return "";
  }
  if (line <= 0 || end_line < line || column < 0 || end_column < 0) return "";
  std::string text;
  for (int i = line; i <= end_line && text.size() < kLongestExpression; ++i) {
    const std::string whole = RawSourceLine(code, i);
    const std::size_t begin = i == line ? static_cast<std::size_t>(column) : 0;
    const std::size_t end = i == end_line ? static_cast<std::size_t>(end_column) : whole.size();
    if (begin > end || end > whole.size()) return "";
    const std::string part(absl::StripAsciiWhitespace(absl::string_view(whole).substr(begin, end - begin)));
    if (i == line && i < end_line && absl::EndsWith(part, ":")) return "";  // a whole statement
    absl::StrAppend(&text, text.empty() || part.empty() ? "" : " ", part);
  }
  return text.size() < kLongestExpression ? text : "";
}

// ---------------------------------------------------------------- modules

// Leaves the error indicator as it is: a stack is asked for while the program's exception is on its way, too.
PyTypeObject* ModuleType() {
  static PyObject* const type = [] {
    PyObject* const module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.nn.modules.module");
    PyObject* const names = module != nullptr && PyModule_Check(module) ? PyModule_GetDict(module) : nullptr;
    PyObject* const found = names != nullptr ? PyDict_GetItemString(names, "Module") : nullptr;
    Py_XINCREF(found);
    return found;
  }();
  return reinterpret_cast<PyTypeObject*>(type);
}

bool IsModule(PyObject* object) {
  PyTypeObject* const type = ModuleType();
  return object != nullptr && type != nullptr && PyType_IsSubtype(Py_TYPE(object), type) != 0;
}

std::string NameOfClass(PyTypeObject* type) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return type->tp_name;
  return Utf8(reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname);
}

// Whether a class of the object defines the code: by their names, since a decorator puts another function in its place.
bool IsMethodOf(PyCodeObject* code, PyObject* object) {
  const std::string name = QualifiedNameOf(code);
  const std::size_t dot = name.rfind('.');
  PyObject* const classes = Py_TYPE(object)->tp_mro;
  if (dot == std::string::npos || classes == nullptr) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); ++i) {
    auto* const cls = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(classes, i));
    if (NameOfClass(cls) == absl::string_view(name).substr(0, dot)) return true;
  }
  return false;
}

using Seen = absl::flat_hash_set<PyObject*>;

bool FindModule(PyObject* from, PyObject* wanted, Seen* seen, std::string* path) {
  if (from == wanted) return true;
  if (seen->size() > kMostModules || !seen->insert(from).second) return false;
  static PyObject* const name = PyUnicode_InternFromString("_modules");
  PyObject* const children = frame_ops::RawInstanceAttr(from, name);
  if (children == nullptr || !PyDict_Check(children)) return false;
  PyObject *key, *child;
  for (Py_ssize_t position = 0; PyDict_Next(children, &position, &key, &child) != 0;) {
    std::string below;
    if (!IsModule(child) || !FindModule(child, wanted, seen, &below)) continue;
    *path = absl::StrCat(Utf8(key), below.empty() ? "" : ".", below);
    return true;
  }
  return false;
}

bool PathTo(PyObject* from, PyObject* wanted, std::string* path) {
  Seen seen;
  return from != nullptr && FindModule(from, wanted, &seen, path);
}

// The nn.Module whose method runs, of its first argument; null: none. Borrowed.
PyObject* ModuleOf(PyCodeObject* code, PyObject* first) {
  if (first != nullptr && PyCell_Check(first)) first = PyCell_GET(first);
  return IsModule(first) && IsMethodOf(code, first) ? first : nullptr;
}

PyObject* ModuleOf(const frame_ops::Frame* frame) {
  PyCodeObject* const code = frame_ops::Code(frame);
  return code->co_argcount == 0 ? nullptr : ModuleOf(code, frame_ops::LocalOf(frame, 0));
}

// The code of its class's forward(); null: it is none in Python.
PyCodeObject* ForwardOf(PyObject* module) {
  static PyObject* const name = PyUnicode_InternFromString("forward");
  PyObject* const forward = module == nullptr ? nullptr : frame_ops::TypeLookup(Py_TYPE(module), name);
  if (forward == nullptr || !PyFunction_Check(forward)) return nullptr;
  return reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(forward));
}

CodePlace PlaceOf(PyCodeObject* code, int instruction) {
  CodePlace place;
  place.file = FileNameOf(code);
  place.line = LineOf(code, instruction);
  place.function = NameOf(code);
  place.source = SourceLine(code, place.line);
  place.is_user = IsUsersCode(code);
  place.expression = ExpressionOf(code, instruction);
  return place;
}

thread_local const frame_ops::Frame* compiled_call = nullptr;

// Innermost first.
std::vector<frame_ops::Frame*> ExecutingFrames() {
  std::vector<frame_ops::Frame*> frames;
  auto* frame = frame_ops::CurrentFrame(PyThreadState_Get());
  for (; frame != nullptr && frames.size() < kMostFrames; frame = frame_ops::CallerOf(frame)) frames.push_back(frame);
  return frames;
}

}  // namespace

CodePlace PlaceOf(const frame_ops::Frame* frame, int instruction) {
  PyCodeObject* const forward = CallsModule(frame) ? ForwardOf(ModuleOf(frame)) : nullptr;
  return forward != nullptr ? PlaceOf(forward, -1) : PlaceOf(frame_ops::Code(frame), instruction);
}

PyCodeObject* ShownCode(const FrameView& frame) {
  if (!IsTorchCode(frame.code)) return frame.code;
  PyObject* const self = frame.code->co_argcount == 0 ? nullptr : frame_ops::Untagged(frame.slots[0]);
  PyCodeObject* const forward = ForwardOf(ModuleOf(frame.code, self));
  return forward != nullptr ? forward : frame.code;
}

bool CallsModule(const frame_ops::Frame* frame) {
  PyCodeObject* const code = frame_ops::Code(frame);
  if (!IsTorchCode(code)) return false;
  const std::string name = NameOf(code);
  return (name == "_wrapped_call_impl" || name == "_call_impl") && ModuleOf(frame) != nullptr;
}

ModuleAround::ModuleAround(const frame_ops::Frame* below) {
  const std::vector<frame_ops::Frame*> frames = ExecutingFrames();
  const auto found = std::find(frames.begin(), frames.end(), below);
  const auto end = found == frames.end() ? frames.begin() : found + 1;
  for (auto f = frames.end(); f != end;) Enter(*--f);
}

void ModuleAround::Enter(const frame_ops::Frame* frame) {
  PyObject* const module = ModuleOf(frame);
  if (module == nullptr || module == module_) return;
  if (outermost_ == nullptr) outermost_ = module;
  std::string below;
  if (PathTo(module_, module, &below)) {
    absl::StrAppend(&path_, path_.empty() || below.empty() ? "" : ".", below);
  } else {
    path_.clear();
    // One that nothing leads to begins anew.
    if (!PathTo(outermost_, module, &path_)) outermost_ = module;
  }
  module_ = module;
}

CodePlace ModuleAround::Around(CodePlace place) const {
  place.module = path_;
  if (module_ != nullptr) place.module_class = NameOfClass(Py_TYPE(module_));
  return place;
}

CompiledCall::CompiledCall() : outermost_(compiled_call == nullptr) {
  if (outermost_) compiled_call = frame_ops::CurrentFrame(PyThreadState_Get());
}
CompiledCall::~CompiledCall() {
  if (outermost_) compiled_call = nullptr;
}

UserStack CurrentStack() {
  const std::vector<frame_ops::Frame*> frames = ExecutingFrames();
  auto outside = std::find(frames.begin(), frames.end(), compiled_call);
  if (outside == frames.end()) outside = frames.begin();
  UserStack stack;
  ModuleAround module;
  for (auto f = frames.end(); f != frames.begin();) {
    --f;
    module.Enter(*f);
    PyCodeObject* const code = frame_ops::Code(*f);
    if (IsOwnCode(code) || CallsModule(*f)) continue;
    CodePlace place = module.Around(PlaceOf(*f, frame_ops::LastInstruction(*f)));
    (f >= outside ? stack.callers : stack.frames).push_back(std::move(place));
  }
  return stack;
}

PyCodeObject* UserCodeOf(BorrowedRef callable, PyCodeObject* code) {
  if (!callable || !PyMethod_Check(callable.get()) || !IsTorchCode(code)) return code;
  static PyObject* const name = PyUnicode_InternFromString("forward");
  const BorrowedRef forward = frame_ops::TypeLookup(Py_TYPE(PyMethod_GET_SELF(callable.get())), name);
  if (!forward || !PyFunction_Check(forward.get())) return code;
  return reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(forward.get()));
}

}  // namespace framefuse
