#include "symbolic/calls/signature_calls.h"

#include <string_view>

#include "frame_eval/hook.h"
#include "frame_eval/versions/frame_ops.h"
#include "symbolic/calls/native_calls.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/annotations.h"

namespace framefuse {
namespace {

// Optional[int], list[str] and their like: they do not change.
bool IsTypingObject(BorrowedRef object) {
  static PyObject* const module_key = PyUnicode_InternFromString("__module__");
  PyObject* const module = frame_ops::TypeLookup(object.type(), module_key);
  if (module != nullptr && PyUnicode_Check(module)) {
    return PyUnicode_CompareWithASCIIString(module, "typing") == 0 ||
           PyUnicode_CompareWithASCIIString(module, "types") == 0;
  }
  const std::string_view name = object.type()->tp_name;
  return name == "types.UnionType" || name == "types.GenericAlias";
}

}  // namespace

SignatureCalls::SignatureCalls(Journals& journals, NativeCalls& natives)
    : breaks_(journals.breaks()), reads_(journals.reads()), objects_(journals.objects()), natives_(natives) {}

// Of a plain function, of a method of one, or of a class whose __init__ is one: what its code, its defaults and its
// annotations say, or those of what it wraps.
Value SignatureCalls::SignatureOf(ValueView callable, ValueView function, bool of_library) {
  Value underlying{Ref::Create(function.object), function.source};
  if (PyMethod_Check(function.object.get())) {
    underlying.object = Ref::Create(PyMethod_GET_FUNCTION(function.object.get()));
    const Tracked* method = objects_.Find(function.object);
    if (method != nullptr) {
      underlying = objects_.Adopt(underlying.object,
                                  reads_.sources().Intern(SourceKind::kMethodFunction, method->source, 0, nullptr));
    }
  } else if (PyType_Check(function.object.get())) {
    underlying = InitOf(reinterpret_cast<PyTypeObject*>(function.object.get()));
  }
  if (!underlying) return Value();
  const Tracked* t = objects_.Find(underlying.object);
  if (!MayAsk(underlying.object, t != nullptr ? t->source : kNoSource, of_library)) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
  }
  const HookScope native(HookMode::kOff);
  const ValueView args[] = {function};
  return natives_.CallNative(callable.object, args, nullptr);
}

// The __init__ that a class's signature is made of; None: another thing answers.
Value SignatureCalls::InitOf(PyTypeObject* cls) {
  static PyObject* const init = PyUnicode_InternFromString("__init__");
  bool plain = Py_IS_TYPE(reinterpret_cast<PyObject*>(cls), &PyType_Type);
  for (const char* name : {"__signature__", "__wrapped__", "_partialmethod", "__partialmethod__"}) {
    plain = plain && !reads_.LookupInType(cls, Ref::Steal(PyUnicode_InternFromString(name)));
  }
  static PyObject* const new_name = PyUnicode_InternFromString("__new__");
  plain = plain && reads_.LookupInType(cls, new_name).get() == frame_ops::TypeLookup(&PyBaseObject_Type, new_name);
  const BorrowedRef found = plain ? reads_.LookupInType(cls, init) : BorrowedRef();
  if (!found || !PyFunction_Check(found.get())) return Value{Ref::Create(Py_None), kNoSource};
  return objects_.Adopt(found, reads_.TypeAttr(cls, init));
}

bool SignatureCalls::MayAsk(BorrowedRef function, SourceId source, bool of_library) {
  if (!PyFunction_Check(function.get())) return false;
  const Tracked* t = objects_.Find(function);
  if (t != nullptr && t->mutated()) return false;
  if (source == kNoSource && !objects_.IsFreshFunction(function)) return false;
  if (!of_library && !GuardAnnotations(function, source)) return false;
  if (source != kNoSource) GuardFunction(function, source);
  // What it wraps answers instead.
  // An empty dict is made where there is none, as by any reader of __dict__: whether there is one is nothing to guard.
  const Ref made = Ref::Steal(PyObject_GenericGetDict(function, nullptr));
  PyObject* dict = made.get();
  if (dict == nullptr) {
    PyErr_Clear();
    return false;
  }
  const Ref field = Ref::Steal(PyUnicode_InternFromString("__dict__"));
  const SourceId own =
      source == kNoSource ? kNoSource : reads_.sources().Intern(SourceKind::kFunctionField, source, 0, field);
  const auto item = [&](PyObject* key) { return own == kNoSource ? kNoSource : reads_.sources().Item(own, key); };
  for (const char* name : {"__signature__", "_partialmethod", "__partialmethod__"}) {
    const Ref key = Ref::Steal(PyUnicode_InternFromString(name));
    if (PyDict_GetItemWithError(dict, key) != nullptr) return false;
    if (own != kNoSource) reads_.AddGuard(item(key), GuardKind::kNull, nullptr);
  }
  static PyObject* const wrapped_name = PyUnicode_InternFromString("__wrapped__");
  PyObject* wrapped = PyDict_GetItemWithError(dict, wrapped_name);
  if (own != kNoSource) {
    reads_.AddGuard(item(wrapped_name), wrapped != nullptr ? GuardKind::kIdentity : GuardKind::kNull, wrapped);
  }
  if (wrapped == nullptr) return true;
  const Tracked* known = objects_.Find(wrapped);
  return MayAsk(wrapped, known != nullptr ? known->source : item(wrapped_name), of_library);
}

void SignatureCalls::GuardFunction(BorrowedRef function, SourceId source) {
  auto* f = reinterpret_cast<PyFunctionObject*>(function.get());
  const auto field = [&](const char* name) {
    const Ref key = Ref::Steal(PyUnicode_InternFromString(name));
    return reads_.sources().Intern(SourceKind::kFunctionField, source, 0, key);
  };
  const auto guard = [&](const char* name, PyObject* value) {
    reads_.AddGuard(field(name), GuardKind::kIdentity, value != nullptr ? value : Py_None);
  };
  guard("__code__", f->func_code);
  guard("__defaults__", f->func_defaults);
  guard("__kwdefaults__", f->func_kwdefaults);
  if (f->func_kwdefaults != nullptr) {
    const Ref keys = Ref::Steal(PyDict_Keys(f->func_kwdefaults));
    reads_.AddGuard(field("__kwdefaults__"), GuardKind::kKeys, keys);
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Next(f->func_kwdefaults, &position, &key, &value) != 0;) {
      reads_.AddGuard(reads_.sources().Intern(SourceKind::kKwDefault, source, 0, key),
                      IsLeaf(value) ? GuardKind::kEquals : GuardKind::kIdentity, value);
    }
  }
}

// The program can look into a signature: into objects that it must not get hold of unseen.
bool SignatureCalls::GuardAnnotations(BorrowedRef function, SourceId of) {
  auto* f = reinterpret_cast<PyFunctionObject*>(function.get());
  if (!MayAskForAnnotations(function)) return false;
  for (Py_ssize_t i = 0; f->func_defaults != nullptr && i < PyTuple_GET_SIZE(f->func_defaults); ++i) {
    if (!IsLeaf(PyTuple_GET_ITEM(f->func_defaults, i))) return false;
  }
  PyObject *key, *value;
  for (Py_ssize_t position = 0;
       f->func_kwdefaults != nullptr && PyDict_Next(f->func_kwdefaults, &position, &key, &value) != 0;) {
    if (!IsLeaf(value)) return false;
  }
  const Ref annotations = Ref::Steal(PyObject_GetAttrString(function.get(), "__annotations__"));
  if (!annotations || !PyDict_CheckExact(annotations.get())) {
    PyErr_Clear();
    return false;
  }
  for (Py_ssize_t position = 0; PyDict_Next(annotations.get(), &position, &key, &value) != 0;) {
    if (!IsLeaf(value) && !PyType_Check(value) && !IsTypingObject(value)) return false;
  }
  if (of == kNoSource) return true;
  const Ref name = Ref::Steal(PyUnicode_InternFromString("__annotations__"));
  const SourceId source = reads_.sources().Intern(SourceKind::kFunctionField, of, 0, name);
  reads_.AddGuard(source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(&PyDict_Type));
  const Ref keys = Ref::Steal(PyDict_Keys(annotations.get()));
  reads_.AddGuard(source, GuardKind::kKeys, keys);
  for (Py_ssize_t position = 0; PyDict_Next(annotations.get(), &position, &key, &value) != 0;) {
    reads_.AddGuard(reads_.sources().Item(source, key), IsLeaf(value) ? GuardKind::kEquals : GuardKind::kIdentity,
                    value);
  }
  return true;
}

}  // namespace framefuse
