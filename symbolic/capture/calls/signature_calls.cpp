#include "symbolic/capture/calls/signature_calls.h"

#include <string_view>

#include "frame_eval/hook.h"
#include "frame_eval/versions/frame_ops.h"
#include "symbolic/capture/annotations.h"
#include "symbolic/capture/calls/native_calls.h"
#include "symbolic/capture/code_text.h"
#include "symbolic/capture/graph_break.h"
#include "symbolic/capture/journals/break_controller.h"
#include "symbolic/capture/journals/journals.h"
#include "symbolic/capture/journals/object_table.h"
#include "symbolic/capture/journals/read_journal.h"

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

// Of a plain function or of a method of one: what its code, its defaults and its annotations say.
Value SignatureCalls::SignatureOf(ValueView callable, ValueView function, bool of_library) {
  Value underlying{Ref::Create(function.object), function.source};
  if (PyMethod_Check(function.object.get())) {
    underlying.object = Ref::Create(PyMethod_GET_FUNCTION(function.object.get()));
    const Tracked* method = objects_.Find(function.object);
    if (method != nullptr) {
      underlying = objects_.Adopt(underlying.object,
                                  reads_.sources().Intern(SourceKind::kMethodFunction, method->source, 0, nullptr));
      if (breaks_.unwinding()) return Value();
    }
  }
  auto* f = reinterpret_cast<PyFunctionObject*>(underlying.object.get());
  const Tracked* t = objects_.Find(underlying.object);
  const bool known =
      PyFunction_Check(underlying.object.get()) && (t != nullptr || objects_.IsFreshFunction(underlying.object));
  const bool written = t != nullptr && t->mutated();
  if (!known || written || (f->func_dict != nullptr && PyDict_GET_SIZE(f->func_dict) > 0) ||
      (!of_library && !GuardAnnotations(underlying.object, t))) {
    return breaks_.unwinding() ? Value()
                               : breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
  }
  if (t != nullptr) GuardFunction(underlying.object, *t);
  const HookScope native(HookMode::kOff);
  const ValueView args[] = {function};
  return natives_.CallNative(callable.object, args, nullptr);
}

void SignatureCalls::GuardFunction(BorrowedRef function, const Tracked& t) {
  auto* f = reinterpret_cast<PyFunctionObject*>(function.get());
  const auto guard = [&](const char* name, PyObject* value) {
    const Ref key = Ref::Steal(PyUnicode_InternFromString(name));
    reads_.AddGuard(reads_.sources().Intern(SourceKind::kFunctionField, t.source, 0, key), GuardKind::kIdentity,
                    value != nullptr ? value : Py_None);
  };
  guard("__code__", f->func_code);
  guard("__defaults__", f->func_defaults);
  guard("__kwdefaults__", f->func_kwdefaults);
  // A __wrapped__ or __signature__ in it would answer instead.
  const Ref dict = Ref::Steal(PyUnicode_InternFromString("__dict__"));
  const SourceId own = reads_.sources().Intern(SourceKind::kFunctionField, t.source, 0, dict);
  f->func_dict == nullptr ? reads_.AddGuard(own, GuardKind::kNull, nullptr) : reads_.AddLength(own, 0);
}

// The program can look into a signature: into objects that it must not get hold of unseen.
bool SignatureCalls::GuardAnnotations(BorrowedRef function, const Tracked* t) {
  auto* f = reinterpret_cast<PyFunctionObject*>(function.get());
  if (f->func_kwdefaults != nullptr || !MayAskForAnnotations(function)) return false;
  for (Py_ssize_t i = 0; f->func_defaults != nullptr && i < PyTuple_GET_SIZE(f->func_defaults); ++i) {
    if (!IsLeaf(PyTuple_GET_ITEM(f->func_defaults, i))) return false;
  }
  const Ref annotations = Ref::Steal(PyObject_GetAttrString(function.get(), "__annotations__"));
  if (!annotations || !PyDict_CheckExact(annotations.get())) {
    PyErr_Clear();
    return false;
  }
  PyObject *key, *value;
  for (Py_ssize_t position = 0; PyDict_Next(annotations.get(), &position, &key, &value) != 0;) {
    if (!IsLeaf(value) && !PyType_Check(value) && !IsTypingObject(value)) return false;
  }
  if (t == nullptr) return true;
  const Ref name = Ref::Steal(PyUnicode_InternFromString("__annotations__"));
  const SourceId source = reads_.sources().Intern(SourceKind::kFunctionField, t->source, 0, name);
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
