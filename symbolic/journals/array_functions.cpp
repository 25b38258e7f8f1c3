#include "symbolic/journals/array_functions.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "frame_eval/hook.h"
#include "frame_eval/import_module.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/taken_warnings.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/array_facts.h"
#include "symbolic/rules/call_rules.h"
#include "symbolic/rules/number_arrays.h"
#include "symbolic/rules/operator_functions.h"
#include "symbolic/tracing/later_writes.h"

namespace framefuse {
namespace {

constexpr std::size_t kEach = ~std::size_t{0};

PyObject* Helper(const char* name) {
  const Ref module = ImportModule("framefuse._array_functions");
  return module ? PyObject_GetAttrString(module, name) : nullptr;
}

std::string NameOf(BorrowedRef callable) {
  const Ref name = Ref::Steal(PyObject_GetAttrString(callable, "__name__"));
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name) : nullptr;
  PyErr_Clear();
  return text == nullptr ? "" : text;
}

// As numpy's warnings name what a function of the module operator, or a method, does.
std::string NameInWarnings(const std::string& name) {
  static const auto* names = new absl::flat_hash_map<std::string, std::string>{
      {"sub", "subtract"},  {"mul", "multiply"}, {"truediv", "divide"}, {"floordiv", "floor_divide"},
      {"mod", "remainder"}, {"pow", "power"},    {"astype", "cast"}};
  const auto found = names->find(name);
  return found == names->end() ? name : found->second;
}

// To a type that the program named: not every number is one of that type.
bool MayCast(std::string_view name, const MadeArray& how) {
  for (const char* key : {"dtype", "casting"}) {
    if (PyDict_GetItemString(how.named, key) != nullptr) return true;
  }
  return (name == "array" || name == "asarray" || name == "ascontiguousarray") && how.args.size() > 1;
}

bool IsNumpyCallable(BorrowedRef callable, std::string_view name) {
  if (callable.type() == &PyMethodDescr_Type) {
    return IsArrayType(reinterpret_cast<PyDescrObject*>(callable.get())->d_type) && IsReadMethod(name);
  }
  const CallRule* rule = FindCallRule(callable);
  return rule != nullptr && rule->kind == CallRule::Kind::kNumpy && PyType_Check(callable.get()) == 0;
}

// How many of the first operands are arrays of elements. What follows decides what the result looks like: an axis, a
// number of repetitions.
std::size_t CountOfElementwise(BorrowedRef callable, std::string_view name) {
  static PyTypeObject* const ufunc = [] {
    const Ref module = ImportModule("numpy");
    return reinterpret_cast<PyTypeObject*>(module ? PyObject_GetAttrString(module, "ufunc") : nullptr);
  }();
  if (callable.type() == ufunc || name == "einsum") return kEach;
  if (name == "where" || name == "clip" || name == "interp") return 3;
  static constexpr std::string_view kOfTwo[] = {"append", "convolve",     "dot",      "inner",
                                                "outer",  "searchsorted", "tensordot"};
  return std::find(std::begin(kOfTwo), std::end(kOfTwo), name) != std::end(kOfTwo) ? 2 : 1;
}

// A key of an array, or a number, a type, a text, None.
bool IsPlainOperand(BorrowedRef object) {
  PyObject* o = object;
  if (PyTuple_CheckExact(o)) {
    bool all = true;
    for (Py_ssize_t i = 0; all && i < PyTuple_GET_SIZE(o); ++i) all = IsPlainOperand(PyTuple_GET_ITEM(o, i));
    return all;
  }
  if (PySlice_Check(o)) {
    auto* s = reinterpret_cast<PySliceObject*>(o);
    return IsPlainOperand(s->start) && IsPlainOperand(s->stop) && IsPlainOperand(s->step);
  }
  return o == Py_Ellipsis || PyUnicode_CheckExact(o) || IsForNumpy(object) || IsTypeOfNumbers(object);
}

// Written later, it would be another key, and no guard of its own tells.
bool HoldsArray(BorrowedRef object) {
  PyObject* o = object;
  if (!PyList_CheckExact(o) && !PyTuple_CheckExact(o)) return IsArray(object);
  bool any = false;
  for (Py_ssize_t i = 0; !any && i < PySequence_Fast_GET_SIZE(o); ++i) any = HoldsArray(PySequence_Fast_GET_ITEM(o, i));
  return any;
}

char KindOf(BorrowedRef array) {
  const Ref dtype = Ref::Steal(PyObject_GetAttrString(array, "dtype"));
  const Ref kind = dtype ? Ref::Steal(PyObject_GetAttrString(dtype, "kind")) : Ref();
  const char* text = kind ? PyUnicode_AsUTF8(kind) : nullptr;
  return text == nullptr ? '?' : text[0];
}

// No objects, whose own code would run; no complex numbers, of which numpy warns when it drops a part.
bool HoldsRealNumbers(BorrowedRef array) {
  return std::string_view("biuf").find(KindOf(array)) != std::string_view::npos;
}

bool HasNoElement(BorrowedRef array) {
  const Ref size = Ref::Steal(PyObject_GetAttrString(array, "size"));
  return !size || PyLong_AsLong(size) == 0;
}

// A negative power of an integer raises.
bool IsPowerThatMayRaise(std::string_view name, absl::Span<const ValueView> args, BorrowedRef result) {
  if (name != "power" && name != "pow") return false;
  if (KindOf(result) == 'f') return false;
  return args.size() != 2 || !PyLong_CheckExact(args[1].object.get()) || PyLong_AsLong(args[1].object.get()) < 0;
}

// Of an operand that guards decide, or itself one: a list may hold it.
bool IsPartOfAny(BorrowedRef array, const std::vector<Ref>& operands) {
  const auto is_or_holds = [](BorrowedRef operand, BorrowedRef part) {
    PyObject* o = operand;
    if (!PyList_CheckExact(o) && !PyTuple_CheckExact(o)) return o == part.get();
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      if (PySequence_Fast_GET_ITEM(o, i) == part.get()) return true;
    }
    return false;
  };
  Ref part = Ref::Create(array);
  while (part && IsArray(part)) {
    for (const Ref& operand : operands) {
      if (is_or_holds(operand, part)) return true;
    }
    part = Ref::Steal(PyObject_GetAttrString(part, "base"));
  }
  PyErr_Clear();
  return false;
}

}  // namespace

ArrayFunctions::ArrayFunctions(Journals& journals)
    : frames_(journals.frames()),
      breaks_(journals.breaks()),
      backward_(journals.backward()),
      boundary_(journals.boundary()),
      objects_(journals.objects()),
      arguments_(journals.arguments()),
      tracer_(journals.tracer()),
      warning_(journals.options().warning),
      inputs_(journals) {}

bool ArrayFunctions::HasKnownSizes(BorrowedRef array) {
  return objects_.IsEmptyArray(array) || inputs_.GuardLayout(array);
}

void ArrayFunctions::TakeAmong(absl::Span<const ValueView> values) {
  for (const ValueView& v : values) inputs_.Take(v);
}

// Of all arrays among the operands, which are from outside.
bool ArrayFunctions::MayRelyOnNumbers(absl::Span<const ValueView> values) const {
  return std::all_of(values.begin(), values.end(), [&](ValueView v) {
    if (!IsAmong(absl::MakeConstSpan(&v, 1))) return true;
    const Tracked* t = objects_.Find(v.object);
    return t != nullptr && IsArray(v.object) && t->source != kNoSource && inputs_.MayRelyOn(v.object);
  });
}

bool ArrayFunctions::IsAmong(absl::Span<const ValueView> values) const {
  if (!objects_.has_empty_arrays()) return false;
  return std::any_of(values.begin(), values.end(), [&](ValueView v) {
    PyObject* o = v.object.get();
    if (!PyList_CheckExact(o) && !PyTuple_CheckExact(o)) return objects_.IsEmptyArray(v.object);
    bool any = false;
    for (Py_ssize_t i = 0; !any && i < PySequence_Fast_GET_SIZE(o); ++i) {
      any = objects_.IsEmptyArray(PySequence_Fast_GET_ITEM(o, i));
    }
    return any;
  });
}

std::optional<Value> ArrayFunctions::Call(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const std::string name = NameOf(callable);
  if (!IsNumpyCallable(callable, name) || IsDecidedByValues(name)) return std::nullopt;
  const std::size_t named = kwnames ? static_cast<std::size_t>(PyTuple_GET_SIZE(kwnames.get())) : 0;
  if (name == "where" && args.size() - named != 3) return std::nullopt;
  const std::size_t arrays = std::min(CountOfElementwise(callable, name), args.size());
  const bool refused =
      WarnsOfTooFew(callable, args, kwnames) || (name != "where" && MayWriteArray(callable, args, kwnames));
  if (!refused) TakeAmong(args.subspan(0, arrays));
  if (!IsAmong(args)) return std::nullopt;
  if (IsAmong(args.subspan(arrays))) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "an array whose numbers are not known decides a shape");
  }
  if (refused) return std::nullopt;
  return Make(callable, args, kwnames);
}

std::optional<Value> ArrayFunctions::Operator(BorrowedRef function, absl::Span<const ValueView> operands) {
  TakeAmong(operands);
  if (!IsAmong(operands)) return std::nullopt;
  const auto fits = [&](ValueView v) { return IsArray(v.object) || IsNumberForNumpy(v.object); };
  if (!function || !std::all_of(operands.begin(), operands.end(), fits)) return std::nullopt;
  return Make(function, operands, BorrowedRef());
}

std::optional<Value> ArrayFunctions::Binary(int nb_op, ValueView left, ValueView right) {
  constexpr int kFirstInplace = 13;
  if (nb_op < kFirstInplace) return Operator(OperatorFunction(nb_op), {left, right});
  if (!IsArray(left.object)) return std::nullopt;
  return breaks_.Break(GraphBreakKind::kUnsupportedWrite, "an array of numpy");
}

std::optional<Value> ArrayFunctions::Item(ValueView array, ValueView key) {
  const ValueView operands[] = {array, key};
  inputs_.Take(array);
  if (!IsAmong(absl::MakeConstSpan(operands, 1))) return std::nullopt;
  if (IsAmong(absl::MakeConstSpan(operands).subspan(1))) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "an index of an array whose numbers are not known");
  }
  return Make(NamedOperator("getitem"), operands, BorrowedRef());
}

std::optional<Value> ArrayFunctions::Attribute(ValueView array, BorrowedRef name) {
  const ValueView operands[] = {array, ValueView(name, kNoSource)};
  if (!IsArray(array.object) || PyUnicode_CompareWithASCIIString(name.get(), "T") != 0) return std::nullopt;
  inputs_.Take(array);
  if (!objects_.IsEmptyArray(array.object)) return std::nullopt;
  static PyObject* const reads = PyDict_GetItemString(PyEval_GetBuiltins(), "getattr");
  return Make(reads, operands, BorrowedRef());
}

Ref ArrayFunctions::ListOfOperands(ValueView v) {
  const Ref list = Ref::Steal(PySequence_List(v.object));
  for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(list.get(), i);
    if (PyList_CheckExact(item) || PyTuple_CheckExact(item)) {
      (void)breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "nested lists of arrays");
      return Ref();
    }
    Ref operand = Operand(ValueView(item, kNoSource));
    if (!operand || PyList_SetItem(list, i, operand.release()) < 0) return Ref();
  }
  if (!list || PyList_CheckExact(v.object.get())) return Ref::Create(list);
  return Ref::Steal(PyList_AsTuple(list));
}

Ref ArrayFunctions::Operand(ValueView v) {
  if (objects_.IsEmptyArray(v.object)) return Ref::Create(v.object);
  const bool list = PyList_CheckExact(v.object.get()) || PyTuple_CheckExact(v.object.get());
  if (list && IsAmong(absl::MakeConstSpan(&v, 1))) {
    if (objects_.Find(v.object) == nullptr) return ListOfOperands(v);
    (void)breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "a list from outside with arrays of tensors");
    return Ref();
  }
  if (!IsPlainOperand(v.object) || (HoldsArray(v.object) && !IsArray(v.object))) {
    (void)breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "an array of numpy with the memory of a tensor");
    return Ref();
  }
  if (!arguments_.PrepareNative(v)) return Ref();
  if (!IsArray(v.object) && !PyList_CheckExact(v.object.get())) return Ref::Create(v.object);
  // What a guard compared: the program's own may be written by then.
  if (!IsArray(v.object)) return Ref::Steal(PySequence_List(v.object));
  return Ref::Steal(PyObject_CallMethod(v.object.get(), "copy", "s", "K"));
}

Ref ArrayFunctions::Named(absl::Span<const ValueView> values, BorrowedRef kwnames) {
  Ref named = Ref::Steal(PyDict_New());
  for (std::size_t i = 0; named && i < values.size(); ++i) {
    const bool plain = IsPlainOperand(values[i].object) && !IsArray(values[i].object);
    const Ref value = plain ? Operand(values[i]) : Ref();
    if (!plain) (void)breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "a named argument of a function of numpy");
    if (!value) return Ref();
    if (PyDict_SetItem(named, PyTuple_GET_ITEM(kwnames.get(), static_cast<Py_ssize_t>(i)), value) < 0) return Ref();
  }
  return named;
}

bool ArrayFunctions::IsPartOfEmpty(BorrowedRef array) const {
  Ref part = Ref::Steal(PyObject_GetAttrString(array, "base"));
  while (part && IsArray(part)) {
    if (objects_.IsEmptyArray(part)) return true;
    part = Ref::Steal(PyObject_GetAttrString(part, "base"));
  }
  PyErr_Clear();
  return false;
}

// The tensor at the root of its views.
void ArrayFunctions::NoteReads(BorrowedRef operand, MadeArray& how) const {
  PyObject* o = operand;
  if (PyList_CheckExact(o) || PyTuple_CheckExact(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) NoteReads(PySequence_Fast_GET_ITEM(o, i), how);
    return;
  }
  Ref part = Ref::Create(operand);
  while (part && IsArray(part)) {
    const Tracked* t = objects_.Find(part);
    if (t != nullptr && t->memory_of) how.reads.emplace_back(t->memory_of, tracing::NodesNow());
    part = Ref::Steal(PyObject_GetAttrString(part, "base"));
  }
  PyErr_Clear();
}

bool ArrayFunctions::NoteWarnings(MadeArray& how, bool warned) {
  const std::string name = NameOf(how.function);
  if (!warned && IsQuietArrayCall(name) && !MayCast(name, how)) return true;
  static PyObject* const asks = Helper("warns_in_own_code");
  const HookScope own(HookMode::kOff);
  const Ref in_own = asks != nullptr ? Ref::Steal(PyObject_CallOneArg(asks, how.function)) : Ref();
  if (!in_own) return false;
  how.warns_here = in_own.get() != Py_True;
  static const char* const kTexts[] = {"divide by zero", "overflow", "invalid value"};
  for (const char* text : kTexts) {
    std::optional<DeferredWarning> w =
        NumpyWarningHere(frames_, absl::StrCat(text, " encountered in ", NameInWarnings(name)));
    const bool sayable = w && !backward_.running() && !tracer_.in_branch() && !tracer_.RecordsBackward() &&
                         warning_ != nullptr && !warning_->IsRefuted(w->code, w->instruction);
    if (!sayable)
      return breaks_.BreakFalse(GraphBreakKind::kSideEffectCall, "a warning of numpy's, which the program hears");
    if (!how.warns_here) w->module = Ref::Steal(PyUnicode_FromString("numpy._core._methods"));
    how.warnings.push_back(*std::move(w));
  }
  return true;
}

Value ArrayFunctions::Note(Ref result, MadeArray how, bool warned) {
  if (!IsArray(result)) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "a number that numpy makes of an array of a tensor");
  }
  if (!HoldsRealNumbers(result)) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "an array of complex numbers, or of no numbers");
  }
  if (objects_.Find(result) != nullptr) return Value{std::move(result), kNoSource};  // an operand itself
  const bool part = IsPartOfEmpty(result);
  if (!part && IsPartOfAny(result, how.args)) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "an array of numpy that is a part of one that guards decide");
  }
  if (!part) {
    for (const Ref& operand : how.args) NoteReads(operand, how);
  }
  if (!NoteWarnings(how, warned)) return Value();
  objects_.NoteMadeArray(result, std::move(how));
  return Value{std::move(result), kNoSource};
}

std::optional<Value> ArrayFunctions::Make(BorrowedRef function, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const std::size_t named = kwnames ? static_cast<std::size_t>(PyTuple_GET_SIZE(kwnames.get())) : 0;
  MadeArray how;
  how.function = Ref::Create(function);
  how.named = Named(args.subspan(args.size() - named), kwnames);
  if (!how.named) return Value();
  for (const ValueView& v : args.subspan(0, args.size() - named)) {
    Ref operand = Operand(v);
    if (!operand) return Value();
    if (IsArray(operand) && (HasNoElement(operand) || !HoldsRealNumbers(operand))) {
      return breaks_.Break(GraphBreakKind::kOpaqueObject, "an array without elements, or of complex numbers");
    }
    how.args.push_back(std::move(operand));
  }
  static PyObject* const tries = Helper("on_zeros");
  Ref told;  // the result, and whether numpy would have warned
  {
    const HookScope own(HookMode::kOff);
    std::vector<PyObject*> all = {function.get(), how.named.get()};
    for (const Ref& operand : how.args) all.push_back(operand.get());
    if (tries != nullptr) told = Ref::Steal(PyObject_Vectorcall(tries, all.data(), all.size(), nullptr));
  }
  if (!told) return boundary_.Wrap(Ref());
  Ref result = Ref::Create(PyTuple_GET_ITEM(told.get(), 0));
  if (!IsArray(result) && MayRelyOnNumbers(args)) return std::nullopt;
  const bool warned = PyTuple_GET_ITEM(told.get(), 1) == Py_True;
  if (IsArray(result) && IsPowerThatMayRaise(NameOf(function), args, result)) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "a power of an array of integers");
  }
  return Note(std::move(result), std::move(how), warned);
}

}  // namespace framefuse
