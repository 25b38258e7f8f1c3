#include "symbolic/reconstruct/written_numbers.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "frame_eval/versions/frame_ops.h"
#include "symbolic/capture/capture.h"

namespace framefuse {
namespace {

bool IsNumber(PyObject* o) { return o != nullptr && (PyLong_CheckExact(o) || PyFloat_CheckExact(o)); }

class Search {
 public:
  explicit Search(Capture& capture) : capture_(capture) {}

  void Look(const Tracked& t) {
    if (t.kind == TrackedKind::kList && t.replaced) return LookAtList(t);
    if (t.kind == TrackedKind::kDict && t.replaced) return LookAtDict(t);
    for (const OverlayWrite& w : t.writes) t.kind == TrackedKind::kType ? LookAtClass(t, w) : LookAtWrite(t, w);
  }

  void LookAtGlobal(BorrowedRef globals, const OverlayWrite& w) {
    if (globals.get() != frame_ops::Globals(capture_.frames().real_frame())) return;
    Add(PyDict_GetItemWithError(globals, w.key), w.value.get(),
        [&] { return Sources().Item(Sources().Intern(SourceKind::kGlobals, kNoSource, 0, nullptr), w.key); });
  }

  NumbersWritten Finish() && { return std::move(found_); }

 private:
  SourceTable& Sources() { return capture_.reads().sources(); }
  template <typename F>
  void Add(PyObject* before, PyObject* now, F source) {
    PyErr_Clear();  // of looking for what was there before
    if (!IsNumber(before) || !IsNumber(now)) return;
    const bool changes = PyObject_RichCompareBool(before, now, Py_NE) == 1;
    (changes ? found_.changed : found_.kept).push_back(Sources().Print(source(), capture_.frames().SlotNames()));
  }

  void LookAtWrite(const Tracked& t, const OverlayWrite& w) {
    if (!IsNumber(w.value.get())) return;
    if (t.kind == TrackedKind::kCell) {
      Add(PyCell_GET(t.original.get()), w.value.get(),
          [&] { return Sources().Intern(SourceKind::kCellContents, t.source, 0, nullptr); });
    } else if (t.kind == TrackedKind::kDict) {
      Add(PyDict_GetItemWithError(t.original, w.key), w.value.get(), [&] { return Sources().Item(t.source, w.key); });
    } else if (t.kind == TrackedKind::kInstance && PyUnicode_Check(w.key.get())) {
      const Ref before = Ref::Create(frame_ops::RawInstanceAttr(t.original, w.key));
      Add(before.get(), w.value.get(), [&] { return Sources().InstanceAttr(t.source, w.key); });
    }
  }

  // Read under this class: a number that is found in it, and not in one before it in the order of another class.
  void LookAtClass(const Tracked& t, const OverlayWrite& w) {
    auto* const cls = reinterpret_cast<PyTypeObject*>(t.original.get());
    Add(PyDict_GetItemWithError(frame_ops::TypeDict(cls), w.key), w.value.get(),
        [&] { return capture_.reads().TypeAttr(cls, w.key); });
  }

  // A shadow has the items that were there before as they are.
  void LookAtList(const Tracked& t) {
    if (!PyList_CheckExact(t.original.get()) || !PyList_CheckExact(t.representative.get())) return;
    PyObject *before = t.original.get(), *after = t.representative.get();
    for (Py_ssize_t i = 0; i < std::min(PyList_GET_SIZE(before), PyList_GET_SIZE(after)); ++i) {
      PyObject *old = PyList_GET_ITEM(before, i), *now = PyList_GET_ITEM(after, i);
      if (old != now) Add(old, now, [&] { return Sources().Item(t.source, Ref::Steal(PyLong_FromSsize_t(i))); });
    }
  }

  void LookAtDict(const Tracked& t) {
    if (!PyDict_CheckExact(t.original.get()) || !PyDict_CheckExact(t.representative.get())) return;
    PyObject *key = nullptr, *now = nullptr;
    for (Py_ssize_t position = 0; PyDict_Next(t.representative.get(), &position, &key, &now) != 0;) {
      if (!IsNumber(now) || !PyUnicode_CheckExact(key)) continue;
      PyObject* old = PyDict_GetItemWithError(t.original, key);
      if (old != now) Add(old, now, [&] { return Sources().Item(t.source, key); });
    }
    PyErr_Clear();
  }

  Capture& capture_;
  NumbersWritten found_;
};

}  // namespace

NumbersWritten WrittenNumbers(Capture& capture) {
  Search search(capture);
  for (const std::unique_ptr<Tracked>& t : capture.objects().tracked().all()) {
    if (t->mutated() && (t->source != kNoSource || t->kind == TrackedKind::kType)) search.Look(*t);
  }
  for (const auto& [globals, writes] : capture.writes().globals()) {
    for (const OverlayWrite& w : writes) search.LookAtGlobal(globals, w);
  }
  return std::move(search).Finish();
}

}  // namespace framefuse
