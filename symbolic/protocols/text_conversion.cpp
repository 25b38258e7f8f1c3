#include "symbolic/protocols/text_conversion.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/csrc/autograd/python_variable.h>

#include <string_view>

#include "symbolic/calls/call_evaluator.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

bool IsSlotOf(BorrowedRef found, PyTypeObject* type) {
  return found && found.type() == &PyWrapperDescr_Type && reinterpret_cast<PyDescrObject*>(found.get())->d_type == type;
}

}  // namespace

TextConversion::TextConversion(Journals& journals, NativeProtocols& native, CallEvaluator& calls)
    : tracer_(journals.tracer()),
      breaks_(journals.breaks()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      arguments_(journals.arguments()),
      native_(native),
      calls_(calls) {}

// The type's special method, where it is a Python function; nothing: it is not.
std::optional<Value> TextConversion::TextByMethod(Activation& act, ValueView v, const char* method,
                                                  absl::Span<const ValueView> args) {
  PyTypeObject* type = v.object.type();
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 || IsFakeTensor(v.object) || PyType_Check(v.object.get())) {
    return std::nullopt;
  }
  const BorrowedRef found = reads_.LookupInType(type, method);
  if (!found || !PyFunction_Check(found.get())) return std::nullopt;
  const SourceId of_type = reads_.ConstantSource(reinterpret_cast<PyObject*>(type));
  const Ref name = Ref::Steal(PyUnicode_InternFromString(method));
  Value function = objects_.Adopt(found, reads_.sources().Intern(SourceKind::kTypeAttr, of_type, 0, name));
  Value text = calls_.CallFunction(act, function, args, nullptr, Completion::kCallback);
  if (!text) return text;
  reads_.Consume(text);
  if (PyUnicode_Check(text.object.get())) return text;
  const char* const returned = text.object.type()->tp_name;
  if (std::string_view(method) == "__format__") {
    PyErr_Format(PyExc_TypeError, "__format__ must return a str, not %.200s", returned);
  } else {
    PyErr_Format(PyExc_TypeError, "%s returned non-string (type %.200s)", method, returned);
  }
  return Value();
}

// Nothing: C code does it.
std::optional<Value> TextConversion::TextOf(Activation& act, SpecialCall which, absl::Span<const ValueView> args) {
  if (which == SpecialCall::kAscii) {
    const std::optional<Value> text = TextOf(act, SpecialCall::kRepr, args);
    if (!text || !*text) return text;
    const Ref bytes = Ref::Steal(PyUnicode_AsEncodedString(text->object, "ascii", "backslashreplace"));
    return Value{bytes ? Ref::Steal(PyUnicode_FromEncodedObject(bytes, "ascii", "strict")) : Ref(), kNoSource};
  }
  const ValueView self[] = {args[0]};
  PyTypeObject* type = args[0].object.type();
  if (which == SpecialCall::kFormat) {
    static PyObject* const empty = PyUnicode_New(0, 0);
    const ValueView both[] = {args[0], args.size() > 1 ? args[1] : ValueView(empty, kNoSource)};
    if (std::optional<Value> v = TextByMethod(act, args[0], "__format__", both)) return v;
    const bool plain = PyUnicode_CheckExact(both[1].object.get()) && PyUnicode_GET_LENGTH(both[1].object.get()) == 0;
    if (!plain || !IsSlotOf(reads_.LookupInType(type, "__format__"), &PyBaseObject_Type)) return std::nullopt;
  }
  if (which != SpecialCall::kRepr) {
    if (std::optional<Value> v = TextByMethod(act, args[0], "__str__", self)) return v;
    if (!IsSlotOf(reads_.LookupInType(type, "__str__"), &PyBaseObject_Type)) return TextOfException(args[0], false);
  }
  if (std::optional<Value> v = TextByMethod(act, args[0], "__repr__", self)) return v;
  return TextOfException(args[0], true);
}

// An exception made here: BaseException's own text is made of its arguments.
std::optional<Value> TextConversion::TextOfException(ValueView v, bool repr) {
  PyObject* o = v.object;
  if (!PyExceptionInstance_Check(o) || objects_.Find(v.object) != nullptr) return std::nullopt;
  const BorrowedRef found = reads_.LookupInType(Py_TYPE(o), repr ? "__repr__" : "__str__");
  if (!found || found.type() != &PyWrapperDescr_Type) return std::nullopt;
  const BorrowedRef own(reinterpret_cast<PyBaseExceptionObject*>(o)->args);
  const ValueView texts[] = {ValueView(own, kNoSource)};
  // That of a group is its message and a count.
  const bool group = IsSlotOf(found, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup)) && !repr;
  if (group) return boundary_.Wrap(Ref::Steal(boundary_.Run([&] { return PyObject_Str(o); })));
  if (!arguments_.PrepareNative(own, false) || !arguments_.HaveTextOfTheirOwn(texts)) return Value();
  return boundary_.Wrap(Ref::Steal(boundary_.Run([&] { return repr ? PyObject_Repr(o) : PyObject_Str(o); })));
}

// The text that a conversion makes, before it is formatted.
Value TextConversion::ConvertValue(Activation& act, ValueView v, int conversion) {
  if (IsFakeTensor(v.object)) return breaks_.Break(GraphBreakKind::kTensorToPython, "formatting a tensor");
  const bool instance = !IsLeaf(v.object);
  if (instance) {
    const SpecialCall how = conversion == FVC_REPR    ? SpecialCall::kRepr
                            : conversion == FVC_ASCII ? SpecialCall::kAscii
                                                      : SpecialCall::kStr;
    const ValueView self[] = {v};
    if (std::optional<Value> text = TextOf(act, how, self)) return *std::move(text);
  }
  const ValueView made[] = {v};
  if (!arguments_.PrepareNative(v, !instance) || !arguments_.HaveTextOfTheirOwn(made)) return Value();
  Value result = boundary_.Run([&] { return native_.ConvertValue(act, v, conversion); });
  return boundary_.Check() ? std::move(result) : Value();
}

// Of a tensor without dimensions its number is formatted.
Ref TextConversion::NumberToFormat(BorrowedRef tensor) const {
  const bool plain = reinterpret_cast<PyObject*>(tensor.type()) == THPVariableClass &&
                     THPVariable_Unpack(tensor.get()).dim() == 0 && !at::impl::torch_function_mode_enabled();
  const Ref known = plain ? tracer_.KnownValueOf(tensor) : Ref();
  if (!known) return Ref();
  const tracing::Tracer::Suspended off;
  return Ref::Steal(PyObject_CallMethod(known, "item", nullptr));
}

Value TextConversion::FormatValue(Activation& act, ValueView v, int conversion, ValueView spec) {
  if (spec.object) reads_.Consume(spec);
  if (IsFakeTensor(v.object)) {
    const Ref number = conversion == FVC_NONE ? NumberToFormat(v.object) : Ref();
    if (!number) return breaks_.Break(GraphBreakKind::kTensorToPython, "formatting a tensor");
    return native_.FormatValue(act, ValueView(number, kNoSource), conversion, spec);
  }
  const bool instance = !IsLeaf(v.object);
  if (instance) {
    const SpecialCall how = conversion == FVC_REPR    ? SpecialCall::kRepr
                            : conversion == FVC_ASCII ? SpecialCall::kAscii
                            : conversion == FVC_STR   ? SpecialCall::kStr
                                                      : SpecialCall::kFormat;
    ValueVector args = {v};
    if (how == SpecialCall::kFormat && spec.object) args.push_back(spec);
    if (std::optional<Value> text = TextOf(act, how, args)) {
      return how == SpecialCall::kFormat || !*text ? *std::move(text) : native_.FormatValue(act, *text, FVC_NONE, spec);
    }
  }
  const ValueView made[] = {v};
  if (!arguments_.PrepareNative(v, !instance) || !arguments_.HaveTextOfTheirOwn(made)) return Value();
  Value result = boundary_.Run([&] { return native_.FormatValue(act, v, conversion, spec); });
  return boundary_.Check() ? std::move(result) : Value();
}

}  // namespace framefuse
