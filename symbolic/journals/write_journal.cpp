// Writes, and ends of objects.

#include "symbolic/journals/write_journal.h"

#include <algorithm>

#include "frame_eval/import_module.h"
#include "frame_eval/versions/frame_ops.h"
#include "guards/read.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/native_items.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

constexpr int kMostVisited = 256;

bool HasFinaliser(PyTypeObject* type) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 || type->tp_finalize == nullptr) return false;
  static PyObject* const name = PyUnicode_InternFromString("__del__");
  return frame_ops::TypeLookup(type, name) != nullptr;
}

bool HasWeakrefCallback(PyObject* object) {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) return false;
  auto* reference = reinterpret_cast<PyWeakReference*>(*PyObject_GET_WEAKREFS_LISTPTR(object));
  for (; reference != nullptr; reference = reference->wr_next) {
    if (reference->wr_callback != nullptr) return true;
  }
  return false;
}

// Looks through what dies with an object: what nothing else refers to.
class DeathSearch {
 public:
  explicit DeathSearch(const TrackedTable& tracked) : tracked_(tracked) {}

  // The object whose end runs code, or null.
  PyObject* Visit(PyObject* object) {
    if (HasFinaliser(Py_TYPE(object)) || HasWeakrefCallback(object)) found_ = object;
    const Py_ssize_t outer = std::exchange(in_shadow_, HasFilledShadow(object) ? 1 : 0);
    const bool closed = PyType_Check(object) || PyModule_Check(object) || PyFunction_Check(object) ||
                        tracing::Tracer::IsFake(object) || !PyObject_IS_GC(object);
    if (found_ == nullptr && !closed && ++visited_ < kMostVisited) {
      Py_TYPE(object)->tp_traverse(object, &DeathSearch::VisitChild, this);
    }
    in_shadow_ = outer;
    return found_;
  }

 private:
  static int VisitChild(PyObject* child, void* self) {
    auto& search = *static_cast<DeathSearch*>(self);
    const Py_ssize_t ours = search.tracked_.FindByOriginal(child) != nullptr ? 2 : 0;
    if (search.found_ != nullptr || Py_REFCNT(child) > 1 + ours + search.in_shadow_) return 0;
    search.Visit(child);
    return 0;
  }

  // A container or an object whose items or attributes a shadow holds, too.
  bool HasFilledShadow(PyObject* object) const {
    const Tracked* t = tracked_.FindByOriginal(object);
    if (t == nullptr) return false;
    const Tracked* dict = t->attributes != nullptr ? t->attributes->dict : t->dict;
    return (t->has_shadow() && t->realised) || (dict != nullptr && dict->realised);
  }

  const TrackedTable& tracked_;
  Py_ssize_t in_shadow_ = 0;  // references of ours to what the visited object holds
  PyObject* found_ = nullptr;
  int visited_ = 0;
};

}  // namespace

bool WriteJournal::BeforeEnd(BorrowedRef object) {
  if (!object || IsLeaf(object)) return true;
  any_ended_ = true;
  if (PyObject* loud = DeathSearch(tracked_).Visit(object)) {
    return breaks_.BreakFalse(GraphBreakKind::kFinaliser, Py_TYPE(loud)->tp_name);
  }
  return true;
}

bool WriteJournal::BeforeDrop(ValueView old) {
  const Tracked* t = tracked_.Find(old.object);
  if (t == nullptr && old.source != kUnadopted) return true;
  // What was read from another object is kept by that object; a write there is looked at for itself.
  const SourceKind from =
      t != nullptr && t->source != kNoSource ? reads_.sources()[t->source].kind : SourceKind::kLocal;
  if (from != SourceKind::kLocal && from != SourceKind::kWeakrefTarget) return true;
  return BeforeEnd(t != nullptr ? BorrowedRef(t->original) : old.object);
}

bool WriteJournal::BeforeChange(const Tracked& t) {
  ++count_;
  if (std::find(settled_.begin(), settled_.end(), &t) == settled_.end()) return true;
  return breaks_.BreakFalse(GraphBreakKind::kSideEffectCall, "a change of where records of a log go, behind a record");
}

bool WriteJournal::BeforeOverwrite(Tracked& t, BorrowedRef key) {
  if (!BeforeChange(t)) return false;
  if (t.FindWrite(key) != nullptr) return true;
  switch (t.kind) {
    case TrackedKind::kCell:
      return BeforeEnd(PyCell_GET(t.original.get()));
    case TrackedKind::kContextVariable: {
      const Ref old = ValueInContext(t.original);
      return BeforeEnd(old);
    }
    case TrackedKind::kDict: {
      PyObject* old = PyDict_GetItemWithError(t.original, key);
      if (old == nullptr) PyErr_Clear();
      return BeforeEnd(old);
    }
    case TrackedKind::kType:
      return BeforeEnd(
          PyDict_GetItemWithError(frame_ops::TypeDict(reinterpret_cast<PyTypeObject*>(t.original.get())), key));
    case TrackedKind::kTensor:
    case TrackedKind::kFunction:
    case TrackedKind::kInstance:
      return !PyUnicode_Check(key.get()) || BeforeEnd(frame_ops::RawInstanceAttr(t.original, key));
    case TrackedKind::kList:
    case TrackedKind::kTuple:
    case TrackedKind::kSet:
    case TrackedKind::kDeque:
    case TrackedKind::kInstanceDict:
    case TrackedKind::kModule:
    case TrackedKind::kCallable:
    case TrackedKind::kView:
    case TrackedKind::kOpaque:
      break;
  }
  return true;
}

bool WriteJournal::BeforeReplacing(const Tracked& t) {
  if (!BeforeChange(t)) return false;
  if (t.replaced || !t.realised) return true;
  const Ref items = t.kind == TrackedKind::kDict ? Ref::Steal(PyDict_Values(t.original)) : NativeItems(t.original);
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    if (!BeforeEnd(PyList_GET_ITEM(items.get(), i))) return false;
  }
  return true;
}

bool WriteJournal::Write(Tracked& t, BorrowedRef key, Ref value) {
  if (!BeforeOverwrite(t, key)) return false;
  // The __dict__ of the object, where it is filled, has what the object has.
  if (t.dict != nullptr && t.dict->realised && PyUnicode_Check(key.get())) {
    PyObject* dict = t.dict->representative;
    if (value ? PyDict_SetItem(dict, key, value) < 0
              : PyDict_Contains(dict, key) > 0 && PyDict_DelItem(dict, key) < 0) {
      return false;
    }
  }
  if (key.get() == FactorySlot() && PyMemberDescr_Type.tp_descr_set(key, t.representative, value) < 0) return false;
  t.Write(key, std::move(value));
  return true;
}

void WriteJournal::TakeBack(Tracked& variable) {
  ++count_;
  variable.writes.clear();
}

bool WriteJournal::WriteClassAttr(Tracked& cls, BorrowedRef name, Ref value) {
  has_class_writes_ = true;
  return Write(cls, name, std::move(value));
}

OverlayWrite* WriteJournal::FindOwnClassWrite(PyTypeObject* cls, BorrowedRef name) const {
  if (!has_class_writes_) return nullptr;
  Tracked* t = tracked_.FindByOriginal(reinterpret_cast<PyObject*>(cls));
  return t == nullptr ? nullptr : t->FindWrite(name);
}

OverlayWrite* WriteJournal::FindClassWrite(PyTypeObject* type, BorrowedRef name) const {
  if (!has_class_writes_) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* cls = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (OverlayWrite* w = FindOwnClassWrite(cls, name)) {
      // What a class before it in the order gets of its own may be an equal object.
      for (Py_ssize_t before = 0; before < i; ++before) {
        reads_.AddGuard(reads_.ConstantSource(PyTuple_GET_ITEM(type->tp_mro, before)), GuardKind::kLacksKey, name);
      }
      return w;
    }
    if (PyDict_GetItemWithError(frame_ops::TypeDict(cls), name) != nullptr) return nullptr;
  }
  return nullptr;
}

bool WriteJournal::Replace(Tracked& t) {
  if (t.kind == TrackedKind::kInstanceDict) {
    return breaks_.BreakFalse(GraphBreakKind::kUnsupportedWrite, "C code writes the __dict__ of an object");
  }
  if (!t.is_container()) return true;
  if (!BeforeReplacing(t)) return false;
  t.replaced = true;
  if (t.kind == TrackedKind::kSet) reads_.GuardSetLayout(t);
  return true;
}

bool WriteJournal::ReplaceGrown() {
  for (Tracked* t : tracked_.default_dicts()) {
    const bool grown = t->realised && PyDict_GET_SIZE(t->representative.get()) != PyDict_GET_SIZE(t->original.get());
    if (grown && !t->replaced && !Replace(*t)) return false;
  }
  return true;
}

bool WriteJournal::AddOrDiscard(Tracked& set, BorrowedRef element, bool adds) {
  // A __hash__ in Python is the call's own to ask.
  PyTypeObject* type = element.type();
  const bool hashed_in_python =
      tracing::Tracer::IsFake(element) || (IsPythonClass(type) && type->tp_hash != NativeBase(type)->tp_hash);
  if (set.layout_guarded || hashed_in_python) return Replace(set);
  if (!BeforeReplacing(set)) return false;
  const int there = PySet_Contains(set.representative, element);
  if (there < 0) {  // it cannot be hashed: the call itself tells
    PyErr_Clear();
    return Replace(set);
  }
  set.replaced = true;
  if ((there == 1) != adds) set.writes.push_back({Ref::Create(element), adds ? Ref::Create(Py_True) : Ref(), false});
  return true;
}

bool WriteJournal::AppendUnread(Tracked& list, BorrowedRef item) {
  if (!BeforeChange(list)) return false;
  if (list.appended_from < 0) list.appended_from = 0;
  return PyList_Append(list.representative, item) == 0;
}

bool WriteJournal::WriteSlotNames() const {
  const Ref copyreg = ImportModule("copyreg");
  return std::all_of(noted_classes_.begin(), noted_classes_.end(), [&](const Ref& cls) {
    const Ref names = copyreg ? Ref::Steal(PyObject_CallMethod(copyreg, "_slotnames", "O", cls.get())) : Ref();
    PyErr_Clear();
    PyObject* own = frame_ops::TypeDict(reinterpret_cast<PyTypeObject*>(cls.get()));
    return names && PyDict_GetItemString(own, "__slotnames__") != nullptr;
  });
}

bool WriteJournal::AddWarning(DeferredWarning warning) {
  CachedCall call;
  call.wrapper = Ref::Create(WarningFunction());
  call.args = warning.AsTuple();
  if (!call.args) return false;
  call.deferred = call.always = true;
  calls_.push_back(std::move(call));
  warnings_.push_back(std::move(warning));
  return true;
}

OverlayWrite* WriteJournal::FindGlobal(BorrowedRef globals, BorrowedRef name) {
  for (auto& [dict, writes] : globals_) {
    if (dict.get() != globals.get()) continue;
    const auto found =
        std::find_if(writes.begin(), writes.end(), [&](const OverlayWrite& w) { return w.key.get() == name.get(); });
    return found == writes.end() ? nullptr : &*found;
  }
  return nullptr;
}

bool WriteJournal::WriteGlobal(BorrowedRef globals, BorrowedRef name, BorrowedRef value) {
  ++count_;
  OverlayWrite* known = FindGlobal(globals, name);
  if (known != nullptr && (known->value || !value)) {
    known->value = Ref::Create(value);
    return true;
  }
  if (known == nullptr && !BeforeEnd(PyDict_GetItemWithError(globals, name))) return false;
  auto at = std::find_if(globals_.begin(), globals_.end(),
                         [&](const auto& known) { return known.first.get() == globals.get(); });
  if (at == globals_.end()) {
    globals_.emplace_back(Ref::Create(globals), std::vector<OverlayWrite>());
    at = std::prev(globals_.end());
  }
  std::vector<OverlayWrite>& writes = at->second;
  if (known != nullptr) writes.erase(writes.begin() + (known - writes.data()));  // it stands behind the others now
  writes.push_back(OverlayWrite{Ref::Create(name), Ref::Create(value), known != nullptr});
  return true;
}

WriteJournal::Counts WriteJournal::CountEffects() const {
  Counts counts;
  counts.writes = count_;
  counts.open_ranges = open_ranges_;
  counts.changes = globals_.size() + calls_.size();
  for (const auto& t : tracked_.all()) counts.changes += t->writes.size() + (t->replaced ? 1 : 0);
  return counts;
}

}  // namespace framefuse
