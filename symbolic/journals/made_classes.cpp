#include "symbolic/journals/made_classes.h"

#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/private_api.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"

namespace framefuse {
namespace {

std::int64_t leaked = 0;

Ref FunctionIn(BorrowedRef wrapper, const char* name) {
  Ref function = Ref::Steal(PyObject_GetAttrString(wrapper, name));
  if (!function) PyErr_Clear();
  return function;
}

bool Holds(PyTypeObject* type, BorrowedRef object) {
  PyObject *key, *value;
  for (Py_ssize_t position = 0; PyDict_Next(frame_ops::TypeDict(type), &position, &key, &value) != 0;) {
    if (value == object.get()) return true;
  }
  return false;
}

}  // namespace

PyObject* MadeClasses::FirstKey() {
  static PyObject* const key = PyUnicode_InternFromString("<first name>");
  return key;
}

MadeClasses::~MadeClasses() {
  for (const Ref& weak : weak_) {
    if (private_api::Referent(weak.get()) != Py_None) ++leaked;
  }
}

std::int64_t MadeClasses::Leaked() { return leaked; }

BorrowedRef MadeClasses::NearestKnown(BorrowedRef type) const {
  PyObject* mro = reinterpret_cast<PyTypeObject*>(type.get())->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    if (!IsMade(PyTuple_GET_ITEM(mro, i))) return PyTuple_GET_ITEM(mro, i);
  }
  return reinterpret_cast<PyObject*>(&PyBaseObject_Type);
}

void MadeClasses::NoteCode(BorrowedRef code) {
  if (!PyCode_Check(code.get()) || !code_.insert(code.get()).second) return;
  values_.push_back(Ref::Create(code));
  PyObject* constants = reinterpret_cast<PyCodeObject*>(code.get())->co_consts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) NoteCode(PyTuple_GET_ITEM(constants, i));
}

void MadeClasses::NoteClass(BorrowedRef cls) {
  if (made_.insert(cls.get()).second) {
    classes_.push_back(Ref::Create(cls));
    if (Ref weak = Ref::Steal(PyWeakref_NewRef(cls, nullptr))) weak_.push_back(std::move(weak));
    PyObject* dict = frame_ops::TypeDict(reinterpret_cast<PyTypeObject*>(cls.get()));
    if (PyDict_Contains(dict, FirstKey()) > 0) PyType_Type.tp_setattro(cls, FirstKey(), nullptr);
    PyErr_Clear();
  }
  NoteContents(cls);
}

void MadeClasses::NoteContents(BorrowedRef cls) {
  const Ref values = Ref::Steal(PyDict_Values(frame_ops::TypeDict(reinterpret_cast<PyTypeObject*>(cls.get()))));
  for (Py_ssize_t i = 0; values && i < PyList_GET_SIZE(values.get()); ++i) {
    PyObject* value = PyList_GET_ITEM(values.get(), i);
    NoteValue(value);
    // Only what was made since can refer to the class: the one that FunctionMeta makes beside it.
    const bool second = PyType_Check(value) && !IsMade(value) && Holds(reinterpret_cast<PyTypeObject*>(value), cls);
    if (!second) continue;
    closed_.insert(value);
    NoteClass(value);
  }
}

void MadeClasses::NoteValue(BorrowedRef value) {
  PyObject* v = value.get();
  if (v == nullptr || IsLeaf(value) || PyType_Check(v) || objects_.Find(value) != nullptr) return;
  if (IsFakeTensor(value) || !contents_.insert(v).second) return;
  values_.push_back(Ref::Create(value));
  if (Py_IS_TYPE(v, &PyProperty_Type)) {
    for (const char* part : {"fget", "fset", "fdel"}) NoteValue(FunctionIn(value, part));
  } else if (Py_IS_TYPE(v, &PyStaticMethod_Type) || Py_IS_TYPE(v, &PyClassMethod_Type)) {
    NoteValue(FunctionIn(value, "__func__"));
  }
}

BorrowedRef MadeClasses::Definer(PyTypeObject* type, BorrowedRef name) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* cls = PyTuple_GET_ITEM(type->tp_mro, i);
    if (PyDict_GetItemWithError(frame_ops::TypeDict(reinterpret_cast<PyTypeObject*>(cls)), name) != nullptr) return cls;
  }
  return nullptr;
}

BorrowedRef MadeClasses::Lookup(PyTypeObject* type, BorrowedRef name) {
  PyTypeObject* without = nullptr;  // neither it nor a base of its has the name
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* cls = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    PyObject* own = PyDict_GetItemWithError(frame_ops::TypeDict(cls), name);
    if (!IsMade(cls) && (without == nullptr || PyType_IsSubtype(without, cls) == 0)) {
      if (!reads_.LookupInType(cls, name)) without = cls;
    }
    if (own != nullptr) return own;
  }
  return nullptr;
}

bool MadeClasses::IsOfThisAttempt(BorrowedRef object) const {
  return made_.contains(object.get()) || contents_.contains(object.get()) || objects_.IsFreshFunction(object);
}

std::optional<SourceId> MadeClasses::Rebase(SourceId source) const {
  SourceTable& sources = reads_.sources();
  const Source s = sources[source];
  if (s.base == kNoSource) {
    if (s.kind == SourceKind::kConstant && IsOfThisAttempt(s.key)) return std::nullopt;
    return source;
  }
  const Source& base = sources[s.base];
  if (s.kind == SourceKind::kTypeAttr && base.kind == SourceKind::kConstant && IsMade(base.key)) {
    const BorrowedRef definer = Definer(reinterpret_cast<PyTypeObject*>(base.key.get()), s.key);
    if (!definer || IsMade(definer)) return std::nullopt;
    return sources.Intern(s.kind, reads_.ConstantSource(definer), s.index, s.key);
  }
  const std::optional<SourceId> rebased = Rebase(s.base);
  if (!rebased || *rebased == s.base) return rebased ? std::optional<SourceId>(source) : std::nullopt;
  return sources.Intern(s.kind, *rebased, s.index, s.key);
}

void MadeClasses::TakeApart() {
  for (std::size_t i = classes_.size(); i-- > 0;) PyType_Type.tp_clear(classes_[i]);
  classes_.clear();
  closed_.clear();
  values_.clear();
  made_.clear();
  contents_.clear();
  code_.clear();
  PyErr_Clear();
}

}  // namespace framefuse
