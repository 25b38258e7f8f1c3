#include "symbolic/protocols/super_attributes.h"

#include "symbolic/calls/call_evaluator.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/class_order.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/protocols/attribute_reads.h"

namespace framefuse {

SuperAttributes::SuperAttributes(Journals& journals, AttributeReads& attributes, CallEvaluator& calls)
    : breaks_(journals.breaks()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      attributes_(attributes),
      calls_(calls) {}

Value SuperAttributes::GetAttr(Activation& act, ValueView super_object, BorrowedRef name) {
  static PyObject* const class_name = PyUnicode_InternFromString("__class__");
  // One that existed before a break is read by its parts.
  const auto part = [&](const char* member) {
    return attributes_.ReadMember(reads_.LookupInType(&PySuper_Type, member), super_object, &PySuper_Type).object;
  };
  const Ref self = part("__self__");
  const Ref this_class = self ? part("__thisclass__") : Ref();
  const Ref self_class = this_class ? part("__self_class__") : Ref();
  if (!self_class) return Value();
  if (self.get() == Py_None) return breaks_.Break(GraphBreakKind::kOpaqueObject, "an unbound super()");
  auto* start = reinterpret_cast<PyTypeObject*>(self_class.get());
  PyObject* mro = start->tp_mro;
  GuardClassOrder(reads_, start);
  Py_ssize_t i = 0;
  while (i < PyTuple_GET_SIZE(mro) && PyTuple_GET_ITEM(mro, i) != this_class.get()) ++i;
  if (PyUnicode_Compare(name, class_name) != 0) {
    for (++i; i < PyTuple_GET_SIZE(mro); ++i) {
      auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
      Ref own = Ref::Create(PyDict_GetItemWithError(frame_ops::TypeDict(base), name));
      PyObject* found = own;
      // The class's whole look-up is guarded, which sees a change of any base.
      reads_.LookupInType(base, name);
      if (const OverlayWrite* w = writes_.FindOwnClassWrite(base, name)) return Value{w->value, kNoSource};
      if (found == nullptr) continue;
      const SourceId source = reads_.TypeAttr(base, name);
      Tracked* t = objects_.Find(self);
      const ValueView owner(self, t != nullptr ? t->source : kNoSource);
      const bool through_class = self.get() == self_class.get();
      if (through_class && PyFunction_Check(found)) return objects_.Adopt(found, source);
      return attributes_.BindDescriptor(act, found, source, owner, start);
    }
  }
  return boundary_.Wrap(Ref::Steal(PyObject_GetAttr(super_object.object, name)));
}

Value SuperAttributes::Load(Activation& act, ValueView global_super, ValueView cls, ValueView self, BorrowedRef name,
                            bool two_argument) {
  Value object;
  if (two_argument || global_super.object.get() == reinterpret_cast<PyObject*>(&PySuper_Type)) {
    const ValueView args[] = {cls, self};
    object = calls_.CallWith(act, global_super, args, nullptr, Completion::kCallback);
  } else {
    object = calls_.CallWith(act, global_super, {}, nullptr, Completion::kCallback);
  }
  if (!object) return Value();
  return attributes_.LoadAttr(act, object, name);
}

}  // namespace framefuse
