#include "symbolic/journals/tracked.h"

#include <algorithm>

#include "symbolic/rules/builtin_types.h"

namespace framefuse {
namespace {

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
  if (kind == TrackedKind::kDict && IsDefaultDict(result->representative)) default_dicts_.push_back(result);
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

}  // namespace framefuse
