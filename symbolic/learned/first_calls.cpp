#include "symbolic/learned/first_calls.h"

#include <torch/csrc/autograd/python_variable.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config.h"
#include "frame_eval/versions/frame_ops.h"
#include "guards/changed_places.h"
#include "guards/text.h"

namespace framefuse {
namespace {

constexpr int kMostDepth = 4;
constexpr Py_ssize_t kMostItems = 64;

void Collect(BorrowedRef value, const std::string& source, int depth, FirstCalls::Arguments* into) {
  PyObject* o = value.get();
  const auto item = [&](const std::string& key, PyObject* of) {
    Collect(of, absl::StrCat(source, "[", key, "]"), depth + 1, into);
  };
  if (THPVariable_Check(o)) {
    const at::Tensor& t = THPVariable_Unpack(o);
    if (t.layout() != c10::Layout::Strided || t.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return;
    into->insert_or_assign(source, FirstCalls::Values{true, t.sizes().vec()});
  } else if (PyLong_CheckExact(o)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow == 0) into->insert_or_assign(source, FirstCalls::Values{false, {number}});
  } else if (depth < kMostDepth && (PyList_CheckExact(o) || PyTuple_CheckExact(o))) {
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(o);
    into->insert_or_assign(TextOfLength(source), FirstCalls::Values{false, {count}});
    for (Py_ssize_t i = 0; i < count && i < kMostItems; ++i) item(absl::StrCat(i), PySequence_Fast_GET_ITEM(o, i));
  } else if (depth < kMostDepth && PyDict_CheckExact(o)) {
    PyObject *key, *of;
    for (Py_ssize_t position = 0; PyDict_Next(o, &position, &key, &of) != 0;) {
      if (PyUnicode_CheckExact(key) || PyLong_CheckExact(key)) item(ReprText(key), of);
    }
  }
}

FirstCalls::Arguments ArgumentsOf(const FrameView& frame) {
  FirstCalls::Arguments arguments;
  const int count = frame_ops::SlotCount(frame.code);
  for (int i = 0; i < count && i < frame.slot_count; ++i) {
    if (frame.slots[i] == nullptr) continue;
    const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(frame.code->co_localsplusnames, i));
    if (name == nullptr) {
      PyErr_Clear();
      continue;
    }
    Collect(frame.slots[i], absl::StrCat("L['", name, "']"), 0, &arguments);
  }
  return arguments;
}

}  // namespace

bool FirstCalls::IsFirst(const FrameView& frame, DynamicSizes& sizes) {
  const auto [at, is_new] = calls_.try_emplace(frame.code);
  if (is_new) {
    at->second.arguments = ArgumentsOf(frame);
    return true;
  }
  if (std::exchange(at->second.compared, true)) return false;
  const Arguments first = std::exchange(at->second.arguments, {});
  for (const auto& [source, now] : ArgumentsOf(frame)) {
    const auto before = first.find(source);
    if (before == first.end() || before->second.of_tensor != now.of_tensor) continue;
    const std::vector<std::int64_t>& old = before->second.numbers;
    if (!now.of_tensor && old != now.numbers && !config().specialize_int) sizes.NoteNumber(frame.code, source);
    if (!now.of_tensor || old.size() != now.numbers.size()) continue;
    for (std::size_t d = 0; d < old.size(); ++d) {
      if (old[d] != now.numbers[d]) sizes.Note(frame.code, source, static_cast<int>(d));
    }
  }
  return false;
}

}  // namespace framefuse
