#include "symbolic/calls/class_calls.h"

#include "absl/strings/str_cat.h"
#include "symbolic/calls/call_evaluator.h"
#include "symbolic/calls/native_calls.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/elements.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/made_in_backward.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/journals/weak_targets.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/rules/tensor_types.h"

namespace framefuse {
namespace {

bool MayBeSubclassed(PyTypeObject* builtin) {
  return builtin == &PyBaseObject_Type || builtin == &PyDict_Type || builtin == &PyList_Type ||
         builtin == &PyTuple_Type || builtin == &PySet_Type || builtin == &PyLong_Type || builtin == &PyUnicode_Type ||
         builtin == &PyFloat_Type || builtin == &PyODict_Type || builtin == &PyModule_Type ||
         builtin == &PyProperty_Type || builtin == DefaultDictType();
}

bool IsException(PyTypeObject* type) {
  return PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)) != 0;
}

bool IsPythonNew(BorrowedRef make) { return make && make.type() == &PyStaticMethod_Type; }

}  // namespace

ClassCalls::ClassCalls(Journals& journals, CallEvaluator& calls, NativeCalls& natives)
    : breaks_(journals.breaks()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      arguments_(journals.arguments()),
      calls_(calls),
      natives_(natives) {}

Value ClassCalls::CallType(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames,
                           Completion completion) {
  auto* type = reinterpret_cast<PyTypeObject*>(callable.object.get());
  if (IsTensorType(callable.object) || IsLegacyTensorType(callable.object))
    return natives_.CallTorch(act, callable.object, args, kwnames);
  const BorrowedRef meta_call = reads_.LookupInType(Py_TYPE(type), "__call__");
  if (meta_call && PyFunction_Check(meta_call.get())) {
    return calls_.CallFunction(act, objects_.Adopt(meta_call, reads_.ConstantSource(meta_call)),
                               WithFirst(callable, args), kwnames, completion);
  }
  if (meta_call &&
      meta_call.type() != &PyWrapperDescr_Type) {  // a class there is no method: dict, for typing.TypedDict
    if (meta_call.type()->tp_descr_get != nullptr) {
      return breaks_.Break(GraphBreakKind::kUnlistedCallable, "a __call__ of a metaclass that is no function");
    }
    return calls_.CallWith(act, objects_.Adopt(meta_call, reads_.ConstantSource(meta_call)), args, kwnames, completion);
  }
  return MakeObject(act, callable, args, kwnames, completion);
}

Value ClassCalls::CallPastMetaclass(Activation& act, ValueView callable, absl::Span<const ValueView> args,
                                    BorrowedRef kwnames) {
  auto* type = reinterpret_cast<PyTypeObject*>(callable.object.get());
  const BorrowedRef meta_call = reads_.LookupInType(Py_TYPE(type), "__call__");
  const bool plain = meta_call && !PyFunction_Check(meta_call.get());
  return plain ? calls_.CallWith(act, callable, args, kwnames, Completion::kPush)
               : MakeObject(act, callable, args, kwnames, Completion::kCallback);
}

// As type.__call__ does.
Value ClassCalls::MakeObject(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames,
                             Completion completion) {
  auto* type = reinterpret_cast<PyTypeObject*>(callable.object.get());
  if (type == WeakrefType()) return MakeWeakref(callable, args, kwnames);
  if (!IsPythonClass(type)) {
    if (!IsException(type)) return breaks_.Break(GraphBreakKind::kUnlistedCallable, type->tp_name);
    return arguments_.PrepareAll(args) ? natives_.CallNative(callable.object, args, kwnames) : Value();
  }
  if (reads_.LookupInType(type, "__del__")) return breaks_.Break(GraphBreakKind::kFinaliser, type->tp_name);
  const BorrowedRef make = reads_.LookupInType(type, "__new__");
  Value object;
  if (IsPythonNew(make)) {
    const Ref function = Ref::Steal(PyObject_GetAttrString(make, "__func__"));
    // What __new__ returns decides whose __init__ comes next: its frame cannot end the call.
    object = calls_.CallWith(act, objects_.Adopt(function, reads_.ConstantSource(function)), WithFirst(callable, args),
                             kwnames, Completion::kCallback);
  } else {
    object = NewByBuiltin(type, args, kwnames);
  }
  if (!object) return Value();
  if (!PyObject_TypeCheck(object.object.get(), type)) return object;
  const bool ends_call = completion == Completion::kPush && !IsPythonNew(make);
  return Initialise(act, std::move(object), args, kwnames, ends_call ? Completion::kInit : Completion::kCallback);
}

// weakref.ref(object): one without a callback, or that of a weak container. It is made of what stands for the object in
// the capture, which lives as long as the object does while nothing has been dropped; WeakTargets looks for that, but
// for a key nobody asks for its object.
Value ClassCalls::MakeWeakref(ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const Tracked* t = !args.empty() && args.size() < 3 && !kwnames ? objects_.Find(args[0].object) : nullptr;
  const bool known =
      t != nullptr && t->source != kNoSource &&
      (t->kind == TrackedKind::kInstance || t->kind == TrackedKind::kDict || t->kind == TrackedKind::kSet);
  const BorrowedRef callback = args.size() == 2 && args[1].object.get() != Py_None ? args[1].object : BorrowedRef();
  const bool key = known && IsKnownByAddress(t->original) && (!callback || IsOfWeakContainer(callback));
  const bool of_frame = args.size() == 1 && !kwnames && objects_.Find(args[0].object) == nullptr &&
                        MayBeReferredTo(args[0].object.type());
  if (!of_frame && (!known || (!key && (callback || writes_.AnyMayHaveEnded())))) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
  }
  return boundary_.Wrap(Ref::Steal(PyWeakref_NewRef(args[0].object, callback)));
}

// An object of a Python class whose __new__ is a builtin type's.
Value ClassCalls::NewByBuiltin(PyTypeObject* type, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  PyTypeObject* base = NativeBase(type);
  if (!MayBeSubclassed(base) && !IsException(type)) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, absl::StrCat("a class derived from ", base->tp_name));
  }
  if (base != &PyBaseObject_Type && !arguments_.PrepareAll(args)) return Value();
  // object.__new__ ignores its arguments where __init__ is overridden, and checks abstract methods.
  const std::size_t positional = PositionalCount(args, kwnames);
  const Ref tuple = Ref::Steal(PyTuple_New(static_cast<Py_ssize_t>(positional)));
  for (std::size_t i = 0; i < positional; ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args[i].object.get()));
  }
  Ref keywords;
  for (std::size_t i = positional; i < args.size(); ++i) {
    if (!keywords) keywords = Ref::Steal(PyDict_New());
    PyDict_SetItem(keywords, PyTuple_GET_ITEM(kwnames.get(), static_cast<Py_ssize_t>(i - positional)), args[i].object);
  }
  Value object = boundary_.Wrap(Ref::Steal(boundary_.Run([&] { return type->tp_new(type, tuple, keywords); })));
  MadeInBackward::Note(object.object);
  return object;
}

Value ClassCalls::Initialise(Activation& act, Value object, absl::Span<const ValueView> args, BorrowedRef kwnames,
                             Completion completion) {
  PyTypeObject* type = object.object.type();
  const BorrowedRef init = reads_.LookupInType(type, "__init__");
  if (!init || (init.type() == &PyWrapperDescr_Type &&
                reinterpret_cast<PyDescrObject*>(init.get())->d_type == &PyBaseObject_Type)) {
    return object;  // object.__init__ does nothing once __new__ accepted the arguments
  }
  const ValueVector all = WithFirst(object, args);
  if (!PyFunction_Check(init.get())) {
    const Value done = calls_.CallWith(act, ValueView(init, kNoSource), all, kwnames, Completion::kCallback);
    return done ? std::move(object) : Value();
  }
  const SourceId made = reads_.ConstantSource(reinterpret_cast<PyObject*>(type));
  const Value function = objects_.Adopt(
      init,
      reads_.sources().Intern(SourceKind::kTypeAttr, made, 0, Ref::Steal(PyUnicode_InternFromString("__init__"))));
  const Value done = calls_.CallFunction(act, function, all, kwnames, completion, object.object);
  if (!done) return Value();
  if (done.object.get() != Py_None) {
    PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(done.object.get())->tp_name);
    return Value();
  }
  return object;
}

}  // namespace framefuse
