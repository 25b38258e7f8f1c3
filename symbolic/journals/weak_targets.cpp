#include "symbolic/journals/weak_targets.h"

#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/private_api.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/frame_stack.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

WeakTargets::WeakTargets(Journals& journals)
    : WeakTargets(journals.frames(), journals.breaks(), journals.reads(), journals.writes(), journals.objects()) {}

namespace {

constexpr int kDeepest = 3;
constexpr int kMostSeen = 4096;

struct Search {
  PyObject* target;
  int depth;
  int* seen;
};

int Visit(PyObject* o, void* at) {
  const Search& search = *static_cast<const Search*>(at);
  if (o == search.target) return 1;
  const bool holds = PyCell_Check(o) || PyDict_Check(o) || PyList_CheckExact(o) || PyTuple_CheckExact(o) ||
                     (IsPythonClass(Py_TYPE(o)) && !PyType_Check(o) && !tracing::Tracer::IsFake(o));
  if (!holds || search.depth == kDeepest || ++*search.seen > kMostSeen) return 0;
  const traverseproc traverse = Py_TYPE(o)->tp_traverse;
  Search inner{search.target, search.depth + 1, search.seen};
  return traverse == nullptr ? 0 : traverse(o, Visit, &inner);
}

// What the variables of the frames hold lives, in the program too. Others may live here alone, for a while.
bool IsHeld(const FrameStack& frames, PyObject* target) {
  int seen = 0;
  Search search{target, 0, &seen};
  for (const Activation* act : frames.all()) {
    PyObject* const* slots = frame_ops::Slots(act->frame);
    for (int i = 0; i < frame_ops::SlotCount(frame_ops::Code(act->frame)); ++i) {
      if (slots[i] != nullptr && Visit(slots[i], &search) != 0) return true;
    }
  }
  return false;
}

}  // namespace

bool MayBeReferredTo(PyTypeObject* type) {
  static PyObject* const finaliser = PyUnicode_InternFromString("__del__");
  const bool known = type == &PyODict_Type || type == &PySet_Type || IsPythonClass(type);
  return known && PyType_SUPPORTS_WEAKREFS(type) && frame_ops::TypeLookup(type, finaliser) == nullptr;
}

Value WeakTargets::Of(ValueView reference) {
  PyObject* target = private_api::Referent(reference.object.get());
  const Tracked* tracked = objects_.Find(reference.object);
  if (tracked == nullptr && target != Py_None && objects_.Find(target) == nullptr) {
    if (IsHeld(frames_, target)) return Value{Ref::Create(target), kNoSource};
    return breaks_.Break(GraphBreakKind::kFinaliser, "a weak reference to an object of the frame that may have ended");
  }
  // It may have been part of what was dropped.
  if (target != Py_None && writes_.AnyMayHaveEnded()) {
    return breaks_.Break(GraphBreakKind::kFinaliser, "a weak reference to an object that may have ended");
  }
  if (tracked == nullptr) {  // made here, of an object that is kept from outside
    const Tracked* known = objects_.Find(target);
    if (known != nullptr) return Value{Ref::Create(target), known->source};
    return breaks_.Break(GraphBreakKind::kFinaliser, "a weak reference that was made here, to an object that ended");
  }
  Value v = objects_.Adopt(target, reads_.sources().Intern(SourceKind::kWeakrefTarget, tracked->source, 0, nullptr));
  if (v && target == Py_None) reads_.Consume(v);
  return v;
}

bool WeakTargets::IsProxy(ValueView v) const {
  return PyWeakref_CheckProxy(v.object.get()) && objects_.Find(v.object) != nullptr;
}

Value WeakTargets::BehindProxy(ValueView proxy) {
  Value target = Of(proxy);
  if (!target || target.object.get() != Py_None) return target;
  return breaks_.Break(GraphBreakKind::kOpaqueObject, "a weak proxy of an object that ended");
}

PyTypeObject* WeakrefType() {
  static PyTypeObject* const type = [] {
    const Ref reference = Ref::Steal(PyWeakref_NewRef(reinterpret_cast<PyObject*>(&PyType_Type), nullptr));
    return reference.type();
  }();
  return type;
}

bool IsAskedByCall(BorrowedRef reference, BorrowedRef call_of_its_class) {
  if (PyWeakref_CheckRefExact(reference.get())) return true;
  return PyWeakref_CheckRef(reference.get()) && call_of_its_class && call_of_its_class.type() == &PyWrapperDescr_Type &&
         reinterpret_cast<PyDescrObject*>(call_of_its_class.get())->d_type == WeakrefType();
}

}  // namespace framefuse
