#include "symbolic/calls/reachable_state.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "frame_eval/versions/frame_ops.h"
#include "symbolic/journals/made_classes.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

enum class Look : std::uint8_t { kPassOver, kInto, kCannot };

// C types whose whole state is what their tp_traverse visits.
bool IsTransparent(PyTypeObject* type) {
  for (PyTypeObject* known :
       {&PyList_Type, &PyDict_Type, &PySet_Type, &PyTuple_Type, &PyFrozenSet_Type, &PyCell_Type, &PyMethod_Type,
        &PyBaseObject_Type, &PySlice_Type, &PyProperty_Type, &PyStaticMethod_Type, &PyClassMethod_Type, DequeType(),
        DefaultDictType(), PartialType(), SimpleNamespaceType()}) {
    if (type == known) return true;
  }
  return PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)) != 0;
}

Look LookAt(BorrowedRef object, const TrackedTable& tracked, const MadeClasses& classes) {
  PyObject* o = object.get();
  if (classes.IsMade(object)) return Look::kInto;
  if (IsLeaf(object) || PyType_Check(o) || PyModule_Check(o) || PyCode_Check(o)) {
    return Look::kPassOver;
  }
  if (tracing::Tracer::IsFake(object)) return Look::kInto;
  if (const Tracked* t = tracked.Find(object)) {
    // What the program put into it may be of this attempt.
    return t->is_container() ? Look::kInto : Look::kPassOver;
  }
  if (PyByteArray_Check(o)) return Look::kCannot;
  if (PyFunction_Check(o)) return Look::kInto;
  if (!PyObject_IS_GC(o)) return Look::kPassOver;
  return IsTransparent(NativeBase(Py_TYPE(o))) ? Look::kInto : Look::kCannot;
}

std::vector<Ref> PartsOf(BorrowedRef object) {
  std::vector<Ref> parts;
  PyObject* o = object.get();
  if (PyFunction_Check(o)) {  // not its globals: those existed before
    auto* f = reinterpret_cast<PyFunctionObject*>(o);
    for (PyObject* part : {f->func_code, f->func_closure, f->func_defaults, f->func_kwdefaults, f->func_dict}) {
      if (part != nullptr) parts.push_back(Ref::Create(part));
    }
    return parts;
  }
  if (PyType_Check(o)) {  // made in the attempt: its names, and its bases, which may be, too
    auto* type = reinterpret_cast<PyTypeObject*>(o);
    parts.push_back(Ref::Create(type->tp_mro));
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Next(frame_ops::TypeDict(type), &position, &key, &value) != 0;) {
      const bool field = Py_IS_TYPE(value, &PyGetSetDescr_Type) || Py_IS_TYPE(value, &PyMemberDescr_Type);
      if (!field) parts.push_back(Ref::Create(value));
    }
    return parts;
  }
  const auto visit = [](PyObject* part, void* into) {
    static_cast<std::vector<Ref>*>(into)->push_back(Ref::Create(part));
    return 0;
  };
  if (Py_TYPE(o)->tp_traverse != nullptr) Py_TYPE(o)->tp_traverse(o, visit, &parts);
  return parts;
}

bool SameObjects(const std::vector<Ref>& a, const std::vector<Ref>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Ref& x, const Ref& y) { return x.get() == y.get(); });
}

}  // namespace

ReachableState::ReachableState(const std::vector<Ref>& roots, const TrackedTable& tracked, const MadeClasses& classes) {
  std::vector<Ref> open = roots;
  for (const auto& t : tracked.all()) {  // a branch comes to these by names, too
    if (t->is_container() && t->mutated()) open.push_back(t->representative);
    for (const OverlayWrite& w : t->writes) {
      if (w.value) open.push_back(w.value);
    }
  }
  absl::flat_hash_set<PyObject*> seen;
  while (!open.empty()) {
    Ref object = std::move(open.back());
    open.pop_back();
    if (!object || !seen.insert(object.get()).second) continue;
    const Look look = LookAt(object, tracked, classes);
    if (look == Look::kCannot) unknown_ = Py_TYPE(object.get())->tp_name;
    if (look != Look::kInto) continue;
    Facts facts;
    facts.parts = PartsOf(object);
    facts.of_tensor = tracing::Tracer::StateOf(object);
    open.insert(open.end(), facts.parts.begin(), facts.parts.end());
    facts.object = std::move(object);
    facts_.push_back(std::move(facts));
  }
}

std::vector<Ref> ReachableState::Tensors() const {
  std::vector<Ref> tensors;
  for (const Facts& f : facts_) {
    if (!f.of_tensor.empty()) tensors.push_back(f.object);
  }
  return tensors;
}

bool ReachableState::IsUnchanged() const {
  return std::all_of(facts_.begin(), facts_.end(), [](const Facts& f) {
    return SameObjects(f.parts, PartsOf(f.object)) && f.of_tensor == tracing::Tracer::StateOf(f.object);
  });
}

}  // namespace framefuse
