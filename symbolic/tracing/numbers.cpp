#include "symbolic/tracing/numbers.h"

#include <torch/csrc/Size.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include <utility>

#include "frame_eval/hook.h"
#include "frame_eval/versions/private_api.h"
#include "symbolic/tracing/input_sizes.h"
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

using ir::Dim;
using ir::ExprKind;

std::optional<Dim> Numbers::Find(BorrowedRef object) const {
  if (const auto it = known_.find(object.get()); it != known_.end()) return it->second.dim;
  const bool is_float = PyFloat_CheckExact(object.get());
  if (!is_float && !PyLong_CheckExact(object.get())) return std::nullopt;
  if (is_float) return recorder_->sizes().Table().FloatConstant(PyFloat_AS_DOUBLE(object.get()));
  int overflow = 0;
  const std::int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0 ? std::optional(Dim(value)) : std::nullopt;
}

Sizes& Numbers::sizes() const { return recorder_->sizes(); }

Ref Numbers::Make(Dim d) {
  if (d.is_constant()) return Ref::Steal(PyLong_FromLongLong(d.constant()));
  const Sizes& sizes = recorder_->sizes();
  const bool is_float = sizes.IsFloat(d);
  Ref object =
      is_float ? Ref::Steal(PyFloat_FromDouble(sizes.FloatHintOf(d))) : private_api::NewOwnInteger(sizes.HintOf(d));
  if (is_float && sizes.Table()[d.expr].kind == ExprKind::kConstant) return object;
  if (object) known_.insert_or_assign(object.get(), Known{object, d, Ref(), Ref()});
  return object;
}

namespace {
bool IsPythons(PyObject* o) { return PyLong_CheckExact(o) || PyFloat_CheckExact(o); }

// Another object of the same value and type, which C code makes.
Ref CopyOf(BorrowedRef number) {
  const HookScope own(HookMode::kOff);
  return Ref::Steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(number.type()), number));
}
}  // namespace

Ref Numbers::MakeOf(BorrowedRef original, Dim d) {
  Ref object = IsPythons(original) ? Make(d) : CopyOf(original);
  if (object) known_[object.get()] = Known{object, d, Ref::Create(original), Ref()};
  return object;
}

BorrowedRef Numbers::OriginalOf(BorrowedRef object) const {
  const auto it = known_.find(object.get());
  return it == known_.end() ? BorrowedRef() : BorrowedRef(it->second.original);
}

namespace {
// Whether `take` is true of a number in it.
template <typename Take>
bool AnyNumber(BorrowedRef object, Take&& take) {
  PyObject* o = object;
  bool any = false;
  if (PyTuple_Check(o)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) any = AnyNumber(PyTuple_GET_ITEM(o, i), take) || any;
  } else if (PySlice_Check(o)) {
    auto* slice = reinterpret_cast<PySliceObject*>(o);
    for (PyObject* part : {slice->start, slice->stop, slice->step}) any = AnyNumber(part, take) || any;
  } else {
    any = take(o);
  }
  return any;
}
}  // namespace

bool Numbers::Holds(BorrowedRef object) const {
  return !known_.empty() && AnyNumber(object, [&](PyObject* o) { return known_.contains(o); });
}

void Numbers::Pin(BorrowedRef object) {
  if (known_.empty()) return;
  (void)AnyNumber(object, [&](PyObject* o) {
    const auto it = known_.find(o);
    if (it == known_.end()) return false;
    (void)recorder_->sizes().Pin(it->second.dim);
    if (!IsPythons(o)) known_.erase(it);  // a plain one from now on: torch looks at its type, too
    return true;
  });
}

// As Python computes: with doubles. What it raises for is left to it.
std::optional<Dim> Numbers::CombineFloats(SizeArithmetic operation, Dim a, Dim b) {
  Sizes& sizes = recorder_->sizes();
  ir::ExprTable& table = sizes.Table();
  if (!IsExactAsFloat(sizes, a) || !IsExactAsFloat(sizes, b)) return std::nullopt;
  switch (operation) {
    case SizeArithmetic::kAdd:
      return table.Make(ExprKind::kAdd, a, b);
    case SizeArithmetic::kSubtract:
      return table.Make(ExprKind::kAdd, a, table.Make(ExprKind::kNeg, b));
    case SizeArithmetic::kMultiply:
      return table.Make(ExprKind::kMul, a, b);
    case SizeArithmetic::kTrueDivide:
      if (sizes.Decide(ExprKind::kEq, b, Dim(0))) return std::nullopt;
      return table.Make(ExprKind::kTrueDiv, a, b);
    case SizeArithmetic::kPower:
      return FloatPower(sizes, a, b);
    case SizeArithmetic::kFloorDivide:
    case SizeArithmetic::kModulo:
      if (sizes.Decide(ExprKind::kEq, b, Dim(0))) return std::nullopt;
      return table.Make(operation == SizeArithmetic::kModulo ? ExprKind::kMod : ExprKind::kFloorDiv, a, b);
  }
  return std::nullopt;
}

namespace {

bool Overflows(SizeArithmetic operation, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (operation) {
    case SizeArithmetic::kAdd:
      return __builtin_add_overflow(a, b, &result);
    case SizeArithmetic::kSubtract:
      return __builtin_sub_overflow(a, b, &result);
    case SizeArithmetic::kMultiply:
      return __builtin_mul_overflow(a, b, &result);
    case SizeArithmetic::kFloorDivide:
    case SizeArithmetic::kModulo:
    case SizeArithmetic::kTrueDivide:
    case SizeArithmetic::kPower:
      return false;
  }
  return false;
}

}  // namespace

Ref Numbers::Combine(SizeArithmetic operation, BorrowedRef left, BorrowedRef right) {
  const std::optional<Dim> a = Find(left), b = Find(right);
  if (!a || !b) return Ref();
  Sizes& sizes = recorder_->sizes();
  const bool reciprocal = operation == SizeArithmetic::kPower && b->is_constant() && b->constant() < 0;
  if (operation == SizeArithmetic::kTrueDivide || reciprocal || sizes.IsFloat(*a) || sizes.IsFloat(*b)) {
    const std::optional<Dim> made = CombineFloats(operation, *a, *b);
    return made ? Make(*made) : Ref();
  }
  if (operation == SizeArithmetic::kPower) {
    const std::optional<Dim> power = Power(sizes, *a, *b);
    return power ? Make(*power) : Ref();
  }
  const bool divides = operation == SizeArithmetic::kFloorDivide || operation == SizeArithmetic::kModulo;
  if (divides && sizes.Decide(ExprKind::kEq, *b, Dim(0))) return Ref();  // Python raises
  // Sizes fit, and what is computed of them need not.
  if (Overflows(operation, sizes.Table().Hint(*a), sizes.Table().Hint(*b))) return Ref();
  const std::optional<Dim> made = sizes.IfItFits([&] {
    ir::DimAlgebra algebra = sizes.Algebra();
    switch (operation) {
      case SizeArithmetic::kAdd:
        return algebra.Add(*a, *b);
      case SizeArithmetic::kSubtract:
        return algebra.Subtract(*a, *b);
      case SizeArithmetic::kMultiply:
        return algebra.Multiply(*a, *b);
      case SizeArithmetic::kFloorDivide:
        return algebra.FloorDivide(*a, *b);
      case SizeArithmetic::kModulo:
      case SizeArithmetic::kTrueDivide:
      case SizeArithmetic::kPower:
        break;
    }
    return algebra.Modulo(*a, *b);
  });
  return made ? Make(*made) : Ref();
}

Ref Numbers::Negate(BorrowedRef object) {
  Sizes& sizes = recorder_->sizes();
  const Dim d = *Find(object);
  return Make(sizes.IsFloat(d) ? sizes.Table().Make(ExprKind::kNeg, d) : sizes.Algebra().Negate(d));
}

Ref Numbers::ToFloat(BorrowedRef object) {
  Sizes& sizes = recorder_->sizes();
  const Dim d = *Find(object);
  return Make(sizes.IsFloat(d) ? d : sizes.Table().Make(ExprKind::kToFloat, d));
}

Ref Numbers::Apply(NumberFunction function, BorrowedRef object) {
  const std::optional<Dim> d = Find(object);
  const std::optional<Dim> made = d ? ApplyFunction(recorder_->sizes(), function, *d) : std::nullopt;
  return made ? Make(*made) : Ref();
}

Ref Numbers::Apply(ExprKind function, BorrowedRef left, BorrowedRef right) {
  const std::optional<Dim> a = Find(left), b = right ? Find(right) : Dim();
  if (!a || !b) return Ref();
  const std::optional<Dim> made = ApplyFloatFunction(recorder_->sizes(), function, *a, *b);
  return made ? Make(*made) : Ref();
}

// A comparison would be a fact that the next call's numbers break. The result is of the same type in either case.
Ref Numbers::Extreme(bool largest, BorrowedRef left, BorrowedRef right) {
  const std::optional<Dim> a = Find(left), b = Find(right);
  if (!a || !b || none()) return Ref();
  Sizes& sizes = recorder_->sizes();
  const auto kind = largest ? ExprKind::kMax : ExprKind::kMin;
  if (sizes.IsFloat(*a) && sizes.IsFloat(*b)) return Make(sizes.Table().Make(kind, *a, *b));
  if (sizes.IsFloat(*a) || sizes.IsFloat(*b) || !sizes.IsOfNumbers(*a) || !sizes.IsOfNumbers(*b)) return Ref();
  ir::DimAlgebra algebra = sizes.Algebra();
  if (algebra.Decide(ExprKind::kLe, *a, *b)) return Ref();
  return Make(largest ? algebra.Maximum(*a, *b) : algebra.Minimum(*a, *b));
}

Ref Numbers::Absolute(BorrowedRef object) {
  const std::optional<Dim> d = Find(object);
  Sizes& sizes = recorder_->sizes();
  if (d && sizes.IsFloat(*d)) return Make(sizes.Table().Make(ExprKind::kAbs, *d));
  if (!d || !sizes.IsOfNumbers(*d) || sizes.Algebra().Decide(ExprKind::kLe, Dim(0), *d)) return Ref();
  const std::optional<Dim> made = sizes.IfItFits([&] {
    ir::DimAlgebra algebra = sizes.Algebra();
    return algebra.Maximum(*d, algebra.Negate(*d));
  });
  return made ? Make(*made) : Ref();
}

void Numbers::NoteDrawn(BorrowedRef number) {
  if (const std::optional<Dim> d = Find(number)) drawn_.insert(recorder_->sizes().Table().LastUnbacked(*d));
}

std::optional<bool> Numbers::Compare(int py_op, BorrowedRef left, BorrowedRef right) {
  const std::optional<Dim> a = Find(left), b = Find(right);
  if (!a || !b) return std::nullopt;
  Sizes& sizes = recorder_->sizes();
  const auto is_drawn = [&](Dim d) { return drawn_.contains(sizes.Table().LastUnbacked(d)); };
  if (!drawn_.empty() && (is_drawn(*a) || is_drawn(*b))) return std::nullopt;
  const bool floats = sizes.IsFloat(*a) || sizes.IsFloat(*b);
  if (floats && (!IsExactAsFloat(sizes, *a) || !IsExactAsFloat(sizes, *b))) return std::nullopt;
  switch (py_op) {
    case Py_LT:
      return sizes.Decide(ExprKind::kLt, *a, *b);
    case Py_LE:
      return sizes.Decide(ExprKind::kLe, *a, *b);
    case Py_EQ:
      return sizes.Decide(ExprKind::kEq, *a, *b);
    case Py_NE:
      return sizes.Decide(ExprKind::kNe, *a, *b);
    case Py_GT:
      return sizes.Decide(ExprKind::kLt, *b, *a);
    case Py_GE:
      return sizes.Decide(ExprKind::kLe, *b, *a);
    default:
      return std::nullopt;
  }
}

// ---------------------------------------------------------------- torch's side

Ref Numbers::TensorFor(BorrowedRef number) {
  const std::optional<Dim> size = Find(number);
  if (!size) return Ref();
  return Ref::Steal(THPVariable_Wrap(TensorOfSize(*recorder_, *size)));
}

Ref Numbers::SequenceToTorch(BorrowedRef sequence) const {
  PyObject* const* items = PySequence_Fast_ITEMS(sequence.get());
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(sequence.get());
  Ref made;
  for (Py_ssize_t i = 0; i < size; ++i) {
    Ref item = ToTorch(BorrowedRef(items[i]));
    if (!item) continue;
    if (!made) made = Ref::Steal(PySequence_List(sequence));
    if (!made) return Ref();
    PyList_SetItem(made.get(), i, item.release());
  }
  if (made && PyTuple_Check(sequence.get())) made = Ref::Steal(PyList_AsTuple(made));
  return made;
}

Ref Numbers::FloatToTorch(const Known& known) const {
  Sizes& sizes = recorder_->sizes();
  if (!known.node) {
    // Only torch itself makes Python objects of nodes, and only of integers': sym_float() of such a one is the float's.
    const Ref carrier = Ref::Steal(py::cast(sizes.ToSymInt(known.dim)).release().ptr());
    const Ref node = carrier ? Ref::Steal(PyObject_GetAttrString(carrier, "node")) : Ref();
    known.node = node ? Ref::Steal(PyObject_CallMethod(node, "sym_float", nullptr)) : Ref();
    if (!known.node) return Ref();
    sizes.NoteFloat(known.node.get(), known.dim);
  }
  return Ref::Steal(PyObject_CallOneArg(torch::get_symfloat_class().ptr(), known.node));
}

Ref Numbers::ToTorch(BorrowedRef object) const {
  if (known_.empty()) return Ref();
  PyObject* o = object;
  if (const auto it = known_.find(o); it != known_.end()) {
    const HookScope own(HookMode::kOff);
    Sizes& sizes = recorder_->sizes();
    if (sizes.IsFloat(it->second.dim)) return FloatToTorch(it->second);
    return Ref::Steal(py::cast(sizes.ToSymInt(it->second.dim)).release().ptr());
  }
  if (PyTuple_CheckExact(o) || PyList_CheckExact(o) || THPSize_Check(o)) return SequenceToTorch(object);
  if (!PySlice_Check(o)) return Ref();
  auto* slice = reinterpret_cast<PySliceObject*>(o);
  const Ref start = ToTorch(BorrowedRef(slice->start)), stop = ToTorch(BorrowedRef(slice->stop));
  const Ref step = ToTorch(BorrowedRef(slice->step));
  if (!start && !stop && !step) return Ref();
  return Ref::Steal(PySlice_New(start ? start.get() : slice->start, stop ? stop.get() : slice->stop,
                                step ? step.get() : slice->step));
}

Ref Numbers::FromTorch(Ref object) {
  if (!object || !recorder_->sizes().any()) return object;
  PyObject* o = object.get();
  if (PyLong_Check(o) || PyFloat_Check(o) || o == Py_None) return object;
  if (torch::is_symint(o)) return Make(recorder_->sizes().ToDim(py::cast<c10::SymInt>(py::handle(o))));
  if (torch::is_symbool(o)) {
    const bool holds = py::cast<c10::SymBool>(py::handle(o)).guard_bool(__FILE__, __LINE__);
    return Ref::Create(holds ? Py_True : Py_False);
  }
  if (torch::is_symfloat(o)) {
    return Make(recorder_->sizes().ToDim(py::cast<c10::SymFloat>(py::handle(o))));
  }
  const bool is_size = THPSize_Check(o);
  if (!is_size && !PyTuple_CheckExact(o) && !PyList_CheckExact(o)) return object;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(o);
  PyTypeObject* type = Py_TYPE(o);
  Ref made = Ref::Steal(PyList_Check(o) ? PyList_New(count) : type->tp_alloc(type, count));
  bool changed = false;
  for (Py_ssize_t i = 0; made && i < count; ++i) {
    PyObject* before = PySequence_Fast_GET_ITEM(o, i);
    Ref item = FromTorch(Ref::Create(before));
    changed = changed || item.get() != before;
    if (PyList_Check(o)) {
      PyList_SET_ITEM(made.get(), i, item.release());
    } else {
      PyTuple_SET_ITEM(made.get(), i, item.release());
    }
  }
  return changed ? made : object;
}

}  // namespace framefuse::tracing
