#include "symbolic/entry/effects.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/coverage.h"
#include "frame_eval/hook.h"
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/lru_cache.h"
#include "frame_eval/versions/private_api.h"
#include "guards/immutable.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/native_items.h"

namespace framefuse {
namespace {

const char* const kNames[] = {"set_attr",      "delete_attr",     "set_class_attr",   "set_item",    "delete_item",
                              "add_element",   "discard_element", "replace_contents", "extend_list", "store_global",
                              "delete_global", "store_cell",      "set_grad",         "call_method", "call_cached",
                              "keep_cached",   "set_context"};

const bool declared = [] {
  for (const char* name : kNames) DeclareKinds("effect", {name});
  return true;
}();

Ref OrderedKeys(PyObject* ordered) {
  const Ref iterator = Ref::Steal(PyODict_Type.tp_iter(ordered));
  return iterator ? Ref::Steal(PySequence_List(iterator)) : Ref();
}

// Keys that stay keep their places in the dict below the order: dict's own methods can see them.
bool ReplaceOrdered(PyObject* target, PyObject* value) {
  auto* const type = reinterpret_cast<PyObject*>(&PyODict_Type);
  Ref old_keys = OrderedKeys(target);
  for (Py_ssize_t i = 0; old_keys && i < PyList_GET_SIZE(old_keys.get()); ++i) {
    PyObject* key = PyList_GET_ITEM(old_keys.get(), i);
    const int stays = PyDict_Contains(value, key);
    if (stays < 0 || (stays == 0 && PyODict_DelItem(target, key) != 0)) return false;
  }
  Ref keys = old_keys ? OrderedKeys(value) : Ref();
  for (Py_ssize_t i = 0; keys && i < PyList_GET_SIZE(keys.get()); ++i) {
    PyObject* key = PyList_GET_ITEM(keys.get(), i);
    if (PyODict_SetItem(target, key, PyDict_GetItemWithError(value, key)) != 0) return false;
    // As OrderedDict has it, not the object's own class.
    const Ref moved = Ref::Steal(PyObject_CallMethod(type, "move_to_end", "OO", target, key));
    if (!moved) return false;
  }
  return static_cast<bool>(keys);
}

// Of equal keys: whether one may stand for the other, as 1 may not for True.
bool IsSameKey(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a) || PyComplex_CheckExact(a)) return SameImmutable(a, b);
  if (!PyTuple_CheckExact(a)) return true;
  bool same = PyTuple_GET_SIZE(a) == PyTuple_GET_SIZE(b);
  for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(a); ++i) {
    same = IsSameKey(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i));
  }
  return same;
}

// The dict's own keys, in its order: those that stay are the same objects afterwards.
class KeysOfDict {
 public:
  explicit KeysOfDict(PyObject* dict) : keys_(Ref::Steal(PyDict_New())) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (keys_ && PyDict_Next(dict, &at, &key, &value)) {
      order_.push_back(Ref::Create(key));
      PyDict_SetItem(keys_, key, key);
    }
  }

  // Its own key where there is such a one, else `key`.
  PyObject* Own(PyObject* key) const {
    PyObject* own = PyDict_GetItemWithError(keys_, key);
    return IsSameKey(own, key) ? own : key;
  }

  const std::vector<Ref>& order() const { return order_; }

 private:
  Ref keys_;
  std::vector<Ref> order_;
};

// What stays is left in its place, for the sake of iterators that walk the dict.
bool ReplaceItems(PyObject* target, PyObject* value) {
  const KeysOfDict keys(target);
  std::vector<std::pair<Ref, Ref>> items;
  PyObject *key, *item;
  Py_ssize_t at = 0;
  while (PyDict_Next(value, &at, &key, &item)) items.emplace_back(Ref::Create(keys.Own(key)), Ref::Create(item));
  std::size_t next = 0;
  std::vector<PyObject*> gone;
  for (const Ref& own : keys.order()) {
    const bool stays = next < items.size() && items[next].first.get() == own.get();
    stays ? static_cast<void>(++next) : gone.push_back(own.get());
  }
  // One that is gone and comes again has another place.
  const bool moves = std::any_of(gone.begin(), gone.end(), [&](PyObject* k) { return PyDict_Contains(value, k) != 0; });
  if (moves) PyDict_Clear(target);
  for (PyObject* k : gone) {
    if (!moves && PyDict_DelItem(target, k) != 0) return false;
  }
  for (const auto& [k, v] : items) {
    if (PyDict_GetItemWithError(target, k) != v.get() && PyDict_SetItem(target, k, v) != 0) return false;
  }
  return PyErr_Occurred() == nullptr;
}

// In the table of `value`; elements that stay are the same objects afterwards.
bool ReplaceElements(PyObject* target, PyObject* value) {
  const Ref own = Ref::Steal(PyDict_New());
  const Ref elements = own ? Ref::Steal(PySequence_Tuple(value)) : Ref();
  if (!elements) return false;
  PyObject* element = nullptr;
  for (Py_ssize_t at = 0; private_api::SetNext(target, &at, &element);) {
    if (PyDict_SetItem(own, element, element) < 0) return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(elements.get()); ++i) {
    element = PyTuple_GET_ITEM(elements.get(), i);
    PyObject* stays = PyDict_GetItemWithError(own, element);
    if (IsSameKey(stays, element)) PyTuple_SetItem(elements, i, Py_NewRef(stays));
  }
  const Ref after = private_api::CopySetLayout(value, elements);
  if (after) private_api::SwapSets(target, after.get());
  return static_cast<bool>(after);
}

// Of one length, item by item: true if that was all.
bool ReplaceInPlace(PyObject* target, PyObject* value) {
  const Ref old_items = NativeItems(target);
  const Ref new_items = old_items ? Ref::Steal(PySequence_List(value)) : Ref();
  if (!new_items || PyList_GET_SIZE(old_items.get()) != PyList_GET_SIZE(new_items.get())) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(new_items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(new_items.get(), i);
    if (item != PyList_GET_ITEM(old_items.get(), i) && DequeType()->tp_as_sequence->sq_ass_item(target, i, item) < 0) {
      return false;
    }
  }
  return true;
}

bool Replace(PyObject* target, PyObject* value) {
  if (PyList_Check(target)) return PyList_SetSlice(target, 0, PyList_GET_SIZE(target), value) == 0;
  if (PyODict_Check(target)) return ReplaceOrdered(target, value);
  if (PyDict_Check(target)) return ReplaceItems(target, value);
  if (PySet_Check(target)) return ReplaceElements(target, value);
  if (ReplaceInPlace(target, value)) return true;
  if (PyErr_Occurred()) return false;
  auto* const deque = reinterpret_cast<PyObject*>(DequeType());
  const Ref cleared = CallMethodWith(deque, "clear", target);
  const Ref filled = cleared ? Ref::Steal(PyObject_CallMethod(deque, "extend", "OO", target, value)) : Ref();
  return static_cast<bool>(filled);
}

// What the frame made and deleted again was never there for the replay to delete.
bool Forgive(PyObject* type) {
  if (!PyErr_ExceptionMatches(type)) return false;
  PyErr_Clear();
  return true;
}

}  // namespace

bool ApplyEffect(const Effect& e, const std::vector<Ref>& registers) {
  const auto get = [&](RecipeId id) -> PyObject* {
    return id == kNoRecipe ? nullptr : registers[static_cast<std::size_t>(id)].get();
  };
  PyObject* target = get(e.target);
  PyObject* value = get(e.value);
  switch (e.kind) {
    case EffectKind::kSetAttr:
    case EffectKind::kDeleteAttr: {
      const bool text = PyUnicode_Check(e.name.get());
      const bool done = !text ? Py_TYPE(e.name.get())->tp_descr_set(e.name, target, value) == 0
                              : frame_ops::SetRawInstanceAttr(target, e.name, value);
      return done || (value == nullptr && Forgive(PyExc_AttributeError));
    }
    case EffectKind::kSetClassAttr:
      return PyType_Type.tp_setattro(target, e.name, value) == 0;
    case EffectKind::kSetItem:
      return SetNativeItem(target, get(e.key), value);
    case EffectKind::kDeleteItem:
      return SetNativeItem(target, get(e.key), nullptr) || Forgive(PyExc_KeyError);
    case EffectKind::kAddElement:
      return PySet_Add(target, get(e.key)) == 0;
    case EffectKind::kDiscardElement:
      return PySet_Discard(target, get(e.key)) >= 0;
    case EffectKind::kReplaceContents:
      return Replace(target, value);
    case EffectKind::kExtendList:
      return PyList_SetSlice(target, PyList_GET_SIZE(target), PyList_GET_SIZE(target), value) == 0;
    case EffectKind::kStoreGlobal:
      return PyDict_SetItem(target, e.name, value) == 0;
    case EffectKind::kDeleteGlobal:
      return PyDict_DelItem(target, e.name) == 0 || Forgive(PyExc_KeyError);
    case EffectKind::kStoreCell:
      return PyCell_Set(target, value) == 0;
    case EffectKind::kSetContext: {
      const Ref token = Ref::Steal(PyContextVar_Set(target, value));
      return static_cast<bool>(token);
    }
    case EffectKind::kSetGrad:
      return PyObject_SetAttrString(target, "grad", value) == 0;
    case EffectKind::kCallMethod: {
      const Ref method = Ref::Steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(target)), e.name));
      const Ref self = method ? Ref::Steal(PyTuple_Pack(1, target)) : Ref();
      const Ref all = self ? Ref::Steal(PySequence_Concat(self, get(e.key))) : Ref();
      const Ref done = all ? Ref::Steal(PyObject_Call(method, all, nullptr)) : Ref();
      return static_cast<bool>(done);
    }
    case EffectKind::kCallCached: {
      const HookScope own(HookMode::kOff);  // a key's __hash__, which the capture has seen
      const Ref result = Ref::Steal(PyObject_Call(target, get(e.key), value));
      return static_cast<bool>(result);
    }
    case EffectKind::kKeepCached: {
      const HookScope own(HookMode::kOff);
      PyObject* kwargs = PyTuple_GET_ITEM(get(e.key), 1);
      return frame_ops::KeepInLruCache(target, PyTuple_GET_ITEM(get(e.key), 0), kwargs == Py_None ? nullptr : kwargs,
                                       value);
    }
  }
  return false;
}

void CountEffects(absl::Span<const Effect> effects, bool applied) {
  for (const Effect& e : effects) CountKind("effect", kNames[static_cast<std::size_t>(e.kind)], applied);
}

const char* EffectName(EffectKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

}  // namespace framefuse
