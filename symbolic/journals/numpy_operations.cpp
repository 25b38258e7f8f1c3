#include "symbolic/journals/numpy_operations.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <string_view>

#include "frame_eval/hook.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/tracing/sizes.h"

namespace framefuse {
namespace {

using tracing::SizeArithmetic;

enum class Kind : std::uint8_t { kOther, kInteger, kFloat };

Kind KindOf(BorrowedRef object) {
  if (PyLong_CheckExact(object.get())) return Kind::kInteger;
  if (PyFloat_CheckExact(object.get())) return Kind::kFloat;
  if ((object.type()->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) return Kind::kOther;
  if (std::strcmp(object.type()->tp_name, "numpy.int64") == 0) return Kind::kInteger;
  return std::strcmp(object.type()->tp_name, "numpy.float64") == 0 ? Kind::kFloat : Kind::kOther;
}

// Null: numpy raised, as it does in a capture for what it would warn of.
Ref AtHand(SizeArithmetic operation, BorrowedRef left, BorrowedRef right) {
  const HookScope own(HookMode::kOff);
  const auto compute = [&]() -> PyObject* {
    switch (operation) {
      case SizeArithmetic::kAdd:
        return PyNumber_Add(left, right);
      case SizeArithmetic::kSubtract:
        return PyNumber_Subtract(left, right);
      case SizeArithmetic::kMultiply:
        return PyNumber_Multiply(left, right);
      case SizeArithmetic::kFloorDivide:
        return PyNumber_FloorDivide(left, right);
      case SizeArithmetic::kModulo:
        return PyNumber_Remainder(left, right);
      case SizeArithmetic::kTrueDivide:
        return PyNumber_TrueDivide(left, right);
      case SizeArithmetic::kPower:
        return nullptr;
    }
    return nullptr;
  };
  Ref result = Ref::Steal(compute());
  if (!result) PyErr_Clear();
  return result;
}

bool AnyOfNumpy(const tracing::Numbers& numbers, ValueView left, ValueView right) {
  return IsOfNumpy(numbers, left.object) || IsOfNumpy(numbers, right.object);
}

void ConsumePlain(const tracing::Numbers& numbers, ReadJournal& reads, ValueView v) {
  if (!numbers.IsSymbolic(v.object)) reads.Consume(v);
}

// Of an overflow numpy warns.
bool StaysFinite(tracing::Sizes& sizes, ir::Dim d) {
  if (!std::isfinite(sizes.FloatHintOf(d))) return false;
  ir::ExprTable& table = sizes.Table();
  return sizes.Decide(ir::ExprKind::kLe, d, table.FloatConstant(DBL_MAX)) &&
         sizes.Decide(ir::ExprKind::kLe, table.FloatConstant(-DBL_MAX), d);
}

}  // namespace

bool IsOfNumpy(const tracing::Numbers& numbers, BorrowedRef number) {
  return numbers.IsSymbolic(number) && !PyLong_CheckExact(number.get()) && !PyFloat_CheckExact(number.get());
}

Ref PlainNumberOf(tracing::Numbers& numbers, BorrowedRef number) {
  PyObject* o = number;
  if (IsOfNumpy(numbers, number)) return numbers.Make(*numbers.Find(number));
  if (PyLong_CheckExact(o) || PyFloat_CheckExact(o)) return Ref::Create(o);
  return Ref::Steal(PyIndex_Check(o) ? PyNumber_Index(o) : PyNumber_Float(o));
}

Ref CombineOfNumpy(tracing::Numbers& numbers, ReadJournal& reads, SizeArithmetic operation, ValueView left,
                   ValueView right) {
  if (!AnyOfNumpy(numbers, left, right) || operation == SizeArithmetic::kPower) return Ref();
  const Kind a = KindOf(left.object), b = KindOf(right.object);
  const bool floats = a == Kind::kFloat || b == Kind::kFloat;
  const bool rounds = operation == SizeArithmetic::kFloorDivide || operation == SizeArithmetic::kModulo;
  if (a == Kind::kOther || b == Kind::kOther || (floats && rounds)) return Ref();
  const Ref at_hand = AtHand(operation, left.object, right.object);
  if (!at_hand || KindOf(at_hand) == Kind::kOther) return Ref();
  ConsumePlain(numbers, reads, left);
  ConsumePlain(numbers, reads, right);
  const Ref l = PlainNumberOf(numbers, left.object), r = PlainNumberOf(numbers, right.object);
  const Ref made = l && r ? numbers.Combine(operation, l, r) : Ref();
  if (!made || !numbers.IsSymbolic(made)) return Ref();
  const ir::Dim d = *numbers.Find(made);
  if (numbers.sizes().IsFloat(d) && !StaysFinite(numbers.sizes(), d)) return Ref();
  return numbers.MakeOf(at_hand, d);
}

Ref NegateOfNumpy(tracing::Numbers& numbers, ValueView number) {
  if (!IsOfNumpy(numbers, number.object) || KindOf(number.object) == Kind::kOther) return Ref();
  const HookScope own(HookMode::kOff);
  const Ref at_hand = Ref::Steal(PyNumber_Negative(number.object));
  const Ref negated = numbers.Negate(PlainNumberOf(numbers, number.object));
  if (!at_hand || !negated || !numbers.IsSymbolic(negated)) return Ref();
  return numbers.MakeOf(at_hand, *numbers.Find(negated));
}

std::optional<bool> CompareOfNumpy(tracing::Numbers& numbers, ReadJournal& reads, int py_op, ValueView left,
                                   ValueView right) {
  if (!AnyOfNumpy(numbers, left, right)) return std::nullopt;
  if (KindOf(left.object) == Kind::kOther || KindOf(right.object) == Kind::kOther) return std::nullopt;
  ConsumePlain(numbers, reads, left);
  ConsumePlain(numbers, reads, right);
  const Ref l = PlainNumberOf(numbers, left.object), r = PlainNumberOf(numbers, right.object);
  return l && r ? numbers.Compare(py_op, l, r) : std::nullopt;
}

bool TellsTypesOfNumbers(BorrowedRef callable) {
  static constexpr std::array<std::string_view, 9> kNames = {"tensor", "as_tensor",   "asarray",    "new_tensor", "new",
                                                             "Tensor", "result_type", "from_numpy", "can_cast"};
  const std::string_view name = NameOfCallable(callable);
  const bool of_c = PyCFunction_Check(callable.get()) || Py_TYPE(callable.get()) == &PyMethodDescr_Type;
  return !of_c || name.starts_with("sparse_") || std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

void PinNumpyIn(tracing::Numbers& numbers, BorrowedRef object) {
  PyObject* o = object;
  if (IsOfNumpy(numbers, object)) numbers.Pin(object);
  if (PyDict_Check(o)) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value) != 0;) PinNumpyIn(numbers, value);
  }
  if (!PyList_Check(o) && !PyTuple_Check(o)) return;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) PinNumpyIn(numbers, PySequence_Fast_GET_ITEM(o, i));
}

}  // namespace framefuse
