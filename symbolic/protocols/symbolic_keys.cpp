#include "symbolic/protocols/symbolic_keys.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "guards/read.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/kept_keys.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/object_contents.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/rules/native_items.h"
#include "symbolic/tracing/numbers.h"
#include "symbolic/tracing/sizes.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

constexpr Py_ssize_t kMost = kMostKeptKeys;

bool IsSmall(PyObject* container) {
  const Py_ssize_t size = RawLength(container);
  return size >= 0 && size <= kMost;
}

bool IsNumber(PyObject* o) { return PyLong_CheckExact(o) || PyFloat_CheckExact(o); }

// Nobody can tell them apart by what they are.
bool AreAlike(PyObject* a, PyObject* b) {
  return a == b || (PyLong_CheckExact(a) && PyLong_CheckExact(b) && PyObject_RichCompareBool(a, b, Py_EQ) == 1);
}

}  // namespace

SymbolicKeys::SymbolicKeys(Journals& journals)
    : tracer_(journals.tracer()),
      breaks_(journals.breaks()),
      objects_(journals.objects()),
      contents_(journals.contents()),
      arguments_(journals.arguments()) {}

bool SymbolicKeys::IsSymbolic(ValueView v) const {
  return PyLong_CheckExact(v.object.get()) && tracer_.numbers().IsSymbolic(v.object);
}

std::optional<Ref> SymbolicKeys::ElementsOf(ValueView container) {
  Tracked* t = objects_.Find(container.object);
  PyObject* o = container.object;
  if (t != nullptr && !(t->is_container() && contents_.HasNative(*t, "__contains__") && IsSmall(t->original))) {
    return std::nullopt;
  }
  const bool is_known = PyTuple_CheckExact(o) || PyList_CheckExact(o) || PyAnySet_CheckExact(o) || PyDict_CheckExact(o);
  if (t == nullptr && !is_known) return std::nullopt;
  if (!IsSmall(o)) return std::nullopt;
  const bool by_keys = t != nullptr && (t->kind == TrackedKind::kDict || t->kind == TrackedKind::kSet);
  const bool fresh_dict = t == nullptr && PyDict_CheckExact(o);
  if (by_keys ? !contents_.Realise(*t, false) : !fresh_dict && !arguments_.PrepareNative(container)) return Ref();
  if (PyDict_Check(o)) return Ref::Steal(PyDict_Keys(o));
  return NativeItems(o);
}

// One fact says that it is one of several, or one of each that it is not.
bool SymbolicKeys::IsOneOf(BorrowedRef number, absl::Span<const std::int64_t> values) {
  using ir::Dim;
  using ir::ExprKind;
  const Dim d = *tracer_.numbers().Find(number);
  tracing::Sizes& sizes = tracer_.numbers().sizes();
  const auto decide_each = [&] {
    return std::any_of(values.begin(), values.end(),
                       [&](std::int64_t v) { return sizes.Decide(ExprKind::kEq, d, Dim(v)); });
  };
  if (std::find(values.begin(), values.end(), sizes.HintOf(d)) == values.end()) return decide_each();
  Integers possible;
  for (const std::int64_t v : values) {
    const std::optional<bool> known = sizes.Algebra().Decide(ExprKind::kEq, d, Dim(v));
    if (known.value_or(false)) return true;
    if (!known) possible.push_back(v);
  }
  if (possible.size() == 1) return sizes.Decide(ExprKind::kEq, d, Dim(possible[0]));
  ir::ExprTable& table = sizes.Table();
  Dim any = table.Make(ExprKind::kEq, d, Dim(possible[0]));
  for (std::size_t i = 1; i < possible.size(); ++i) {
    any = table.Make(ExprKind::kOr, any, table.Make(ExprKind::kEq, d, Dim(possible[i])));
  }
  return sizes.Decide(ExprKind::kNe, any, Dim(0));
}

// What is no number equals nothing, and is found where it is that same object.
bool SymbolicKeys::IsFoundByValue(BorrowedRef number, BorrowedRef elements) {
  const auto may_be_nan = [&](PyObject* o) {
    return PyFloat_CheckExact(o) && (std::isnan(PyFloat_AS_DOUBLE(o)) || tracer_.numbers().IsSymbolic(o));
  };
  const absl::Span<PyObject* const> all(PySequence_Fast_ITEMS(elements.get()),
                                        static_cast<std::size_t>(PySequence_Fast_GET_SIZE(elements.get())));
  if (std::none_of(all.begin(), all.end(), may_be_nan)) return true;
  const Ref most = Ref::Steal(PyFloat_FromDouble(std::numeric_limits<double>::infinity()));
  return tracer_.numbers().Compare(Py_LE, number, most).value_or(false);
}

std::optional<bool> SymbolicKeys::Compare(BorrowedRef number, BorrowedRef elements) {
  Integers plain;
  bool all_plain = PyLong_CheckExact(number.get());
  const Py_ssize_t size = PyList_GET_SIZE(elements.get());
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* const element = PyList_GET_ITEM(elements.get(), i);
    if (!IsNumber(element)) {
      if (!PyUnicode_CheckExact(element) && element != Py_None) return std::nullopt;
      continue;
    }
    const std::optional<ir::Dim> d = tracer_.numbers().Find(element);
    all_plain = all_plain && d && d->is_constant();
    if (all_plain) plain.push_back(d->constant());
  }
  if (all_plain) return IsOneOf(number, plain);
  if (PyFloat_CheckExact(number.get()) && !IsFoundByValue(number, elements)) return std::nullopt;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* const element = PyList_GET_ITEM(elements.get(), i);
    if (!IsNumber(element)) continue;
    const std::optional<bool> same = tracer_.numbers().Compare(Py_EQ, number, element);
    if (!same) return std::nullopt;
    if (*same) return true;
  }
  return false;
}

// Between its ends, and as many steps from its start as are whole.
std::optional<Truth> SymbolicKeys::IsInRange(ValueView number, ValueView range) {
  if (!PyLong_CheckExact(number.object.get())) return std::nullopt;
  if (!arguments_.PrepareNative(range)) return Truth::kError;
  tracing::Numbers& numbers = tracer_.numbers();
  const auto part = [&](const char* name) { return Ref::Steal(PyObject_GetAttrString(range.object, name)); };
  const Ref start = part("start"), stop = part("stop"), step = part("step");
  const std::optional<ir::Dim> stride = numbers.Find(step);
  if (!stride || !stride->is_constant() || stride->constant() < 1) return std::nullopt;
  const std::optional<bool> begun = numbers.Compare(Py_LE, start, number.object);
  if (!begun || !*begun) return begun ? std::optional(Truth::kFalse) : std::nullopt;
  const std::optional<bool> inside = numbers.Compare(Py_LT, number.object, stop);
  if (!inside || !*inside) return inside ? std::optional(Truth::kFalse) : std::nullopt;
  const Ref way = numbers.Combine(tracing::SizeArithmetic::kSubtract, number.object, start);
  const Ref rest = way ? numbers.Combine(tracing::SizeArithmetic::kModulo, way, step) : Ref();
  const Ref zero = Ref::Steal(PyLong_FromLong(0));
  const std::optional<bool> met = rest ? numbers.Compare(Py_EQ, rest, zero) : std::nullopt;
  if (!met) return std::nullopt;
  return *met ? Truth::kTrue : Truth::kFalse;
}

std::optional<Truth> SymbolicKeys::IsIn(ValueView number, ValueView container) {
  if (!IsNumber(number.object.get()) || !tracer_.numbers().IsSymbolic(number.object)) return std::nullopt;
  if (PyRange_Check(container.object.get())) return IsInRange(number, container);
  const std::optional<Ref> elements = ElementsOf(container);
  if (!elements) return std::nullopt;
  if (!*elements) return Truth::kError;
  const std::optional<bool> found = Compare(number.object, *elements);
  if (!found) return std::nullopt;
  return *found ? Truth::kTrue : Truth::kFalse;
}

Truth SymbolicKeys::Keeps(ValueView dict, ValueView key, BorrowedRef* contents) {
  if (!IsSymbolic(key) || !PyDict_Check(dict.object.get())) return Truth::kFalse;
  Tracked* t = objects_.Find(dict.object);
  const bool plain = PyDict_CheckExact(dict.object.get()) || PyODict_CheckExact(dict.object.get());
  if (t == nullptr ? !plain : t->kind != TrackedKind::kDict || t->attributes != nullptr) return Truth::kFalse;
  if (!IsSmall(dict.object) || (t != nullptr && !IsSmall(t->original))) return Truth::kFalse;
  if (t != nullptr && !contents_.Realise(*t, false)) return Truth::kError;
  *contents = t != nullptr ? BorrowedRef(t->representative) : dict.object;
  const Ref keys = Ref::Steal(PyDict_Keys(*contents));
  if (!keys) return Truth::kError;
  const absl::Span<PyObject* const> all(PySequence_Fast_ITEMS(keys.get()),
                                        static_cast<std::size_t>(PySequence_Fast_GET_SIZE(keys.get())));
  const auto is_known = [](PyObject* k) { return PyLong_CheckExact(k) || PyUnicode_CheckExact(k) || k == Py_None; };
  if (!std::all_of(all.begin(), all.end(), is_known)) return Truth::kFalse;
  return IsToldFrom(key.object, all) ? Truth::kTrue : Truth::kFalse;
}

// A fact for each: which of them it is matters.
bool SymbolicKeys::IsToldFrom(BorrowedRef number, absl::Span<PyObject* const> keys) {
  for (PyObject* const k : keys) {
    if (!PyLong_CheckExact(k)) continue;
    const std::optional<bool> same = tracer_.numbers().Compare(Py_EQ, number, k);
    if (!same) return false;
    if (*same) return true;
  }
  return true;
}

std::optional<Ref> SymbolicKeys::PlainKey(ValueView dict, ValueView key, bool absent_too) {
  if (!IsSymbolic(key) || !PyDict_Check(dict.object.get())) return std::nullopt;
  Tracked* t = objects_.Find(dict.object);
  if (t == nullptr ? !PyDict_CheckExact(dict.object.get()) : t->kind != TrackedKind::kDict || t->mutated())
    return std::nullopt;
  if (t != nullptr && !contents_.HasNative(*t, "__getitem__")) return std::nullopt;
  PyObject* const contents = t != nullptr ? t->original.get() : dict.object.get();
  if (!IsSmall(contents)) return std::nullopt;
  const long at_hand = PyLong_AsLong(key.object);
  Integers keys, alike;
  PyObject *k = nullptr, *v = nullptr, *found = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(contents, &position, &k, &v) != 0;) {
    const std::optional<ir::Dim> d = PyLong_CheckExact(k) ? tracer_.numbers().Find(k) : std::nullopt;
    if (!IsLeaf(v) || tracer_.numbers().IsSymbolic(v) || !d || !d->is_constant()) return std::nullopt;
    keys.push_back(d->constant());
    if (keys.back() == at_hand) found = v;
  }
  if (found == nullptr && !absent_too) return std::nullopt;
  for (Py_ssize_t position = 0; found != nullptr && PyDict_Next(contents, &position, &k, &v) != 0;) {
    if (AreAlike(v, found)) alike.push_back(PyLong_AsLong(k));
  }
  // A key alone among its like is pinned, and the other items need not be looked at.
  if (found != nullptr && alike.size() < 2) return std::nullopt;
  if (t != nullptr && !arguments_.PrepareNative(dict)) return Ref();
  (void)IsOneOf(key.object, found != nullptr ? alike : keys);
  return Ref::Steal(PyLong_FromLong(at_hand));
}

}  // namespace framefuse
