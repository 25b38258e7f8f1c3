#include "symbolic/capture/tracked.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "frame_eval/versions/private_api.h"

namespace framefuse {
namespace {

absl::flat_hash_set<PyTypeObject*>& LeafTypes() {
  static auto* types = new absl::flat_hash_set<PyTypeObject*>{
      &PyBytes_Type, Py_TYPE(Py_None), &PyComplex_Type, Py_TYPE(Py_Ellipsis), Py_TYPE(Py_NotImplemented), &PyCode_Type};
  return *types;
}

// Keys are leaves: equal means the same exact type and an equal value; compared without user code.
bool SameKey(BorrowedRef a, BorrowedRef b) {
  if (a == b) return true;
  if (!a || !b || a.type() != b.type() || !IsLeaf(a)) return false;
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal > 0;
}

}  // namespace

OverlayWrite* Tracked::FindWrite(BorrowedRef key) {
  for (OverlayWrite& w : writes) {
    if (SameKey(w.key, key)) return &w;
  }
  return nullptr;
}

void Tracked::Write(BorrowedRef key, Ref value) {
  if (OverlayWrite* w = FindWrite(key)) {
    if (w->value || !value || kind == TrackedKind::kCell) {
      w->value = std::move(value);
      return;
    }
    writes.erase(writes.begin() + (w - writes.data()));
    writes.push_back(OverlayWrite{Ref::Create(key), std::move(value), true});
    return;
  }
  writes.push_back(OverlayWrite{Ref::Create(key), std::move(value), false});
}

Tracked* TrackedTable::FindByOriginal(BorrowedRef object) const {
  const auto it = by_original_.find(object.get());
  return it == by_original_.end() ? nullptr : it->second;
}

Tracked* TrackedTable::FindObject(BorrowedRef representative) const {
  const auto it = by_representative_.find(representative.get());
  return it == by_representative_.end() ? nullptr : it->second;
}

Tracked* TrackedTable::Add(TrackedKind kind, SourceId source, Ref original, Ref representative) {
  auto tracked = std::make_unique<Tracked>();
  tracked->kind = kind;
  tracked->source = source;
  tracked->original = std::move(original);
  tracked->representative = std::move(representative);
  Tracked* result = tracked.get();
  if (result->original) by_original_[result->original.get()] = result;
  by_representative_[result->representative.get()] = result;
  all_.push_back(std::move(tracked));
  return result;
}

void TrackedTable::AddAttributes(Tracked* container) {
  auto attributes = std::make_unique<Tracked>();
  attributes->kind = TrackedKind::kInstance;
  attributes->source = container->source;
  attributes->original = container->original;
  attributes->representative = container->representative;
  attributes->owner = container;
  container->attributes = attributes.get();
  all_.push_back(std::move(attributes));
}

bool IsFrozensetOfLeaves(BorrowedRef object) {
  PyObject* item = nullptr;
  Py_ssize_t at = 0;
  while (PyFrozenSet_CheckExact(object.get()) && private_api::SetNext(object.get(), &at, &item)) {
    if (!IsLeaf(item)) return false;
  }
  return PyFrozenSet_CheckExact(object.get());
}

bool IsOtherLeaf(BorrowedRef object) { return LeafTypes().contains(object.type()); }
void AddLeafType(PyTypeObject* type) { LeafTypes().insert(type); }

}  // namespace framefuse
