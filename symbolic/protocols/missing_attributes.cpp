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
    if (std::optional<Value> member = MemberOfModule(owner, name)) return *std::move(member);
  }
  const ValueView args[] = {ValueView(name, kNoSource)};
  return special_.Call(act, owner, hook, getattr, args, Completion::kPush);
}

// Nothing: the function itself must say.
std::optional<Value> MissingAttributes::MemberOfModule(ValueView module, BorrowedRef name) {
  Tracked* t = objects_.Find(module.object);
  if (t == nullptr || t->kind != TrackedKind::kInstance || !PyUnicode_CheckExact(name.get())) return std::nullopt;
  const BorrowedRef dict = reads_.LookupInType(module.object.type(), "__dict__");
  if (!dict || dict.type() != &PyGetSetDescr_Type) return std::nullopt;
  static PyObject* const kMembers[] = {PyUnicode_InternFromString("_parameters"),
                                       PyUnicode_InternFromString("_buffers"), PyUnicode_InternFromString("_modules")};
  for (PyObject* kind : kMembers) {
    const std::optional<Value> members = contents_.OwnAttribute(*t, kind);
    if (!members) continue;
    if (!*members) return Value();
    Tracked* const known = objects_.Find(members->object);
    if (known == nullptr || known->kind != TrackedKind::kDict) return std::nullopt;
    if (std::optional<Value> member = contents_.DictItem(*known, ValueView(name, kNoSource))) return member;
  }
  return std::nullopt;
}

}  // namespace framefuse
