#include "frame_eval/versions/lru_cache.h"
#include "frame_eval/import_module.h"

#include <utility>

namespace framefuse::frame_ops {
namespace {

struct LruLink {
  PyObject base;
  LruLink* previous;
  LruLink* next;
  Py_hash_t hash;
  PyObject* key;
  PyObject* result;
};

struct LruCache {
  LruLink root;
  void* call;
  int typed;
  PyObject* cache;
  Py_ssize_t hits;
  PyObject* function;
  Py_ssize_t maxsize;
  Py_ssize_t misses;
  PyObject* keyword_mark;
};

LruCache* AsCache(PyObject* wrapper) { return reinterpret_cast<LruCache*>(wrapper); }

void PutFunction(PyObject* wrapper, PyObject* function) {
  Py_DECREF(std::exchange(AsCache(wrapper)->function, Py_NewRef(function)));
}

// Stands in for the function in one call, known by its arguments' tuple. What a finaliser calls meanwhile is another
// call: what is dropped may end there, and the collector may run.
PyObject* Give(PyObject* known, PyObject* args, PyObject* kwargs) {
  PyObject* function = PyTuple_GET_ITEM(known, 1);
  if (args != PyTuple_GET_ITEM(known, 2)) return PyObject_Call(function, args, kwargs);
  PutFunction(PyTuple_GET_ITEM(known, 0), function);
  return Py_NewRef(PyTuple_GET_ITEM(known, 3));
}

Ref MakeCache(PyObject* function, PyObject* maxsize) {
  const Ref functools = ImportModule("functools");
  const Ref decorator = functools ? Ref::Steal(PyObject_CallMethod(functools, "lru_cache", "O", maxsize)) : Ref();
  return decorator ? Ref::Steal(PyObject_CallOneArg(decorator, function)) : Ref();
}

PyTypeObject* TryLayout() {
  auto* function = reinterpret_cast<PyObject*>(&PyFloat_Type);
  const Ref size = Ref::Steal(PyLong_FromLong(7));
  const Ref trial = MakeCache(function, size);
  const Ref argument = Ref::Steal(PyLong_FromLong(12345));
  const Ref result = trial ? Ref::Steal(PyObject_CallOneArg(trial, argument)) : Ref();
  const Ref again = result ? Ref::Steal(PyObject_CallOneArg(trial, argument)) : Ref();
  if (!again || Py_TYPE(trial.get())->tp_basicsize < static_cast<Py_ssize_t>(sizeof(LruCache))) {
    PyErr_Clear();
    return nullptr;
  }
  const LruCache& c = *AsCache(trial.get());
  const bool fits = c.function == function && c.maxsize == 7 && c.hits == 1 && c.misses == 1 && c.typed == 0 &&
                    c.cache != nullptr && PyDict_CheckExact(c.cache) && PyDict_GET_SIZE(c.cache) == 1;
  PyObject* link = fits ? PyDict_GetItemWithError(c.cache, argument) : nullptr;
  const bool linked = link != nullptr && reinterpret_cast<LruLink*>(link)->key == argument.get() &&
                      reinterpret_cast<LruLink*>(link)->result == result.get();
  PyErr_Clear();
  return linked ? Py_TYPE(trial.get()) : nullptr;
}

}  // namespace

namespace {

struct Hashed {
  PyObject base;
  PyObject* key;
  Py_hash_t hash;
  PyObject* met;  // borrowed, in the last look-up
};

Hashed* AsHashed(PyObject* key) { return reinterpret_cast<Hashed*>(key); }

bool IsPlain(PyTypeObject* type) {
  return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBytes_Type ||
         type == &PyBool_Type;
}

bool IsSamePart(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (IsPlain(Py_TYPE(a))) return PyObject_RichCompareBool(a, b, Py_EQ) > 0;
  if (!PyTuple_CheckExact(a) || PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i) {
    if (!IsSamePart(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
  }
  return true;
}

Py_hash_t HashOf(PyObject* self) { return AsHashed(self)->hash; }

PyObject* Compare(PyObject* self, PyObject* other, int how) {
  if (how != Py_EQ) Py_RETURN_NOTIMPLEMENTED;
  AsHashed(self)->met = other;
  return PyBool_FromLong(IsSamePart(AsHashed(self)->key, other) ? 1 : 0);
}

PyObject* TextOf(PyObject*) { return PyUnicode_FromString("a key with a hash of its own"); }

void Free(PyObject* self) {
  Py_DECREF(AsHashed(self)->key);
  PyObject_Free(self);
}

PyTypeObject* HashedType() {
  static PyTypeObject type = [] {
    PyTypeObject made = {};
    made.ob_base = {PyObject_HEAD_INIT(nullptr) 0};
    made.tp_name = "framefuse.HashedKey";
    made.tp_basicsize = sizeof(Hashed);
    made.tp_flags = Py_TPFLAGS_DEFAULT;
    made.tp_dealloc = &Free;
    made.tp_hash = &HashOf;
    made.tp_richcompare = &Compare;
    made.tp_repr = &TextOf;
    return made;
  }();
  static const bool ready = PyType_Ready(&type) == 0;
  return ready ? &type : nullptr;
}

}  // namespace

Ref HashedKey(PyObject* key, Py_hash_t hash) {
  PyTypeObject* const type = HashedType();
  auto* made = type != nullptr ? static_cast<PyObject*>(PyObject_Malloc(sizeof(Hashed))) : nullptr;
  if (made == nullptr) return Ref();
  PyObject_Init(made, type);
  AsHashed(made)->key = Py_NewRef(key);
  AsHashed(made)->hash = hash;
  AsHashed(made)->met = nullptr;
  return Ref::Steal(made);
}

bool IsHashedKey(PyObject* key) { return Py_IS_TYPE(key, HashedType()); }
PyObject* KeyIn(PyObject* hashed_key) { return AsHashed(hashed_key)->key; }
PyObject* KeyMet(PyObject* hashed_key) { return AsHashed(hashed_key)->met; }

bool CanReadLruCache(PyObject* wrapper) {
  static PyTypeObject* const type = TryLayout();
  return type != nullptr && Py_TYPE(wrapper) == type;
}

Ref LruCacheKey(PyObject* wrapper, PyObject* args, PyObject* kwargs) {
  const LruCache& c = *AsCache(wrapper);
  const Py_ssize_t keywords = kwargs != nullptr ? PyDict_GET_SIZE(kwargs) : 0;
  if (c.typed == 0 && keywords == 0) {
    if (PyTuple_GET_SIZE(args) == 1) {
      PyObject* only = PyTuple_GET_ITEM(args, 0);
      if (PyUnicode_CheckExact(only) || PyLong_CheckExact(only)) return Ref::Create(only);
    }
    return Ref::Create(args);
  }
  const Ref parts = Ref::Steal(PySequence_List(args));
  const auto add = [&](PyObject* part) { return parts && PyList_Append(parts, part) == 0; };
  PyObject *name, *value;
  Py_ssize_t position = 0;
  if (keywords > 0 && !add(c.keyword_mark)) return Ref();
  while (keywords > 0 && PyDict_Next(kwargs, &position, &name, &value)) {
    if (!add(name) || !add(value)) return Ref();
  }
  if (c.typed != 0) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
      if (!add(reinterpret_cast<PyObject*>(Py_TYPE(PyTuple_GET_ITEM(args, i))))) return Ref();
    }
    position = 0;
    while (keywords > 0 && PyDict_Next(kwargs, &position, &name, &value)) {
      if (!add(reinterpret_cast<PyObject*>(Py_TYPE(value)))) return Ref();
    }
  }
  return Ref::Steal(PyList_AsTuple(parts));
}

PyObject* LruCacheFunction(PyObject* wrapper) { return AsCache(wrapper)->function; }

PyObject* LruCachedResult(PyObject* wrapper, PyObject* key) {
  const LruCache& c = *AsCache(wrapper);
  const bool hashed = IsHashedKey(key);
  if (hashed) AsHashed(key)->met = nullptr;
  PyObject* found = PyDict_GetItemWithError(c.cache, key);
  if (found == nullptr) {
    PyErr_Clear();
    return hashed && AsHashed(key)->met != nullptr ? key : nullptr;
  }
  return c.maxsize < 0 ? found : reinterpret_cast<LruLink*>(found)->result;
}

Py_ssize_t LruCacheMaximum(PyObject* wrapper) { return AsCache(wrapper)->maxsize; }

Ref LruCacheDroppable(PyObject* wrapper) {
  const LruCache& c = *AsCache(wrapper);
  Ref found = Ref::Steal(PyList_New(0));
  if (c.maxsize <= 0 || PyDict_GET_SIZE(c.cache) < c.maxsize) return found;
  PyObject *key, *link;
  Py_ssize_t position = 0;
  while (found && PyDict_Next(c.cache, &position, &key, &link)) {
    if (PyList_Append(found, key) < 0 || PyList_Append(found, reinterpret_cast<LruLink*>(link)->result) < 0)
      return Ref();
  }
  return found;
}

bool KeepInLruCache(PyObject* wrapper, PyObject* args, PyObject* kwargs, PyObject* result) {
  static PyMethodDef giver = {"kept", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&Give)),
                              METH_VARARGS | METH_KEYWORDS, nullptr};
  LruCache& c = *AsCache(wrapper);
  const Ref known = Ref::Steal(PyTuple_Pack(4, wrapper, c.function, args, result));
  const Ref stand_in = known ? Ref::Steal(PyCFunction_New(&giver, known)) : Ref();
  if (!stand_in) return false;
  PutFunction(wrapper, stand_in);
  const Ref given = Ref::Steal(PyObject_Call(wrapper, args, kwargs));
  PutFunction(wrapper, PyTuple_GET_ITEM(known.get(), 1));
  return static_cast<bool>(given);
}

}  // namespace framefuse::frame_ops
