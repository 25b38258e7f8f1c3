#include "symbolic/protocols/special_methods.h"

#include "symbolic/calls/call_evaluator.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/protocols/attribute_reads.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/rules/descriptors.h"

namespace framefuse {
namespace {

struct Names {
  Ref getattribute = Ref::Steal(PyUnicode_InternFromString("__getattribute__"));
  Ref getattr = Ref::Steal(PyUnicode_InternFromString("__getattr__"));
};

const Names& N() {
  static const Names* names = new Names();
  return *names;
}

}  // namespace

SpecialMethods::SpecialMethods(Journals& journals, AttributeReads& attributes, CallEvaluator& calls)
    : breaks_(journals.breaks()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      attributes_(attributes),
      calls_(calls) {}

BorrowedRef SpecialMethods::OwnOf(PyTypeObject* type, BorrowedRef name) {
  if (!IsPythonClass(type)) return nullptr;
  const BorrowedRef found = reads_.LookupInType(type, name);
  return found && !IsNativeDefault(found, name) ? found : nullptr;
}

Value SpecialMethods::Call(Activation& act, ValueView owner, BorrowedRef method, BorrowedRef name,
                           absl::Span<const ValueView> args, Completion completion) {
  PyTypeObject* type = owner.object.type();
  const SourceId source = reads_.TypeAttr(type, name);
  if (IsPythonFunction(method)) {
    ValueVector all;
    all.push_back(owner);
    all.insert(all.end(), args.begin(), args.end());
    return calls_.CallFunction(act, objects_.Adopt(method, source), all, nullptr, completion);
  }
  const Value bound = boundary_.Catching([&] { return attributes_.BindDescriptor(act, method, source, owner, type); });
  return bound ? calls_.CallWith(act, bound, args, nullptr, completion) : Value();
}

Value SpecialMethods::CallGetAttribute(Activation& act, ValueView owner, BorrowedRef getattribute, BorrowedRef name) {
  const BorrowedRef fallback = OwnOf(owner.object.type(), N().getattr);
  const ValueView args[] = {ValueView(name, kNoSource)};
  Value v =
      Call(act, owner, getattribute, N().getattribute, args, fallback ? Completion::kCallback : Completion::kPush);
  if (v || !fallback || !PyErr_ExceptionMatches(PyExc_AttributeError)) return v;
  PyErr_Clear();
  return Call(act, owner, fallback, N().getattr, args, Completion::kPush);
}

}  // namespace framefuse
