#include "symbolic/journals/weak_targets.h"

#include "frame_eval/versions/private_api.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/graph_break.h"

namespace framefuse {

WeakTargets::WeakTargets(Journals& journals)
    : WeakTargets(journals.breaks(), journals.reads(), journals.writes(), journals.objects()) {}

Value WeakTargets::Of(ValueView reference) {
  PyObject* target = private_api::Referent(reference.object.get());
  const Tracked* tracked = objects_.Find(reference.object);
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
