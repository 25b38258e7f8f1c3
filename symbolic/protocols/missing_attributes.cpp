#include "symbolic/protocols/missing_attributes.h"

#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/object_contents.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/protocols/special_methods.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {

MissingAttributes::MissingAttributes(Journals& journals, SpecialMethods& special)
    : breaks_(journals.breaks()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      contents_(journals.contents()),
      special_(special) {}

Value MissingAttributes::CallMissingHook(Activation& act, ValueView owner, BorrowedRef name) {
  PyTypeObject* type = owner.object.type();
  static PyObject* const getattr = PyUnicode_InternFromString("__getattr__");
  const BorrowedRef hook = reads_.LookupInType(type, getattr);
  if (FindKnownFunction(hook) == KnownFunction::kModuleGetAttr) {
    Value member = MemberOfModule(owner, name);
    if (member || breaks_.unwinding() || PyErr_Occurred()) return member;
  }
  const ValueView args[] = {ValueView(name, kNoSource)};
  return special_.Call(act, owner, hook, getattr, args, Completion::kPush);
}

// Null without an error: the function itself must say.
Value MissingAttributes::MemberOfModule(ValueView module, BorrowedRef name) {
  Tracked* t = objects_.Find(module.object);
  if (t == nullptr || t->kind != TrackedKind::kInstance || !PyUnicode_CheckExact(name.get())) return Value();
  const BorrowedRef dict = reads_.LookupInType(module.object.type(), "__dict__");
  if (!dict || dict.type() != &PyGetSetDescr_Type) return Value();
  static PyObject* const kMembers[] = {PyUnicode_InternFromString("_parameters"),
                                       PyUnicode_InternFromString("_buffers"), PyUnicode_InternFromString("_modules")};
  for (PyObject* kind : kMembers) {
    const Value members = contents_.OwnAttribute(*t, kind);
    if (breaks_.unwinding() || PyErr_Occurred()) return Value();
    if (!members) continue;
    Tracked* const known = objects_.Find(members.object);
    if (known == nullptr || known->kind != TrackedKind::kDict) return Value();
    Value member = contents_.DictItem(*known, ValueView(name, kNoSource));
    if (member || breaks_.unwinding() || PyErr_Occurred()) return member;
  }
  return Value();
}

}  // namespace framefuse
