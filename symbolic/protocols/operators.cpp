#include "symbolic/protocols/operators.h"

#include <opcode.h>
#include <torch/csrc/autograd/python_variable.h>

#include "frame_eval/hook.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/journals/array_writes.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/fx_journal.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/text_facts.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/number_arrays.h"
#include "symbolic/rules/numpy_scalars.h"
#include "symbolic/rules/operator_functions.h"

namespace framefuse {
namespace {

const char* CompareName(int py_op) {
  static const char* const kNames[] = {"lt", "le", "eq", "ne", "gt", "ge"};
  return kNames[py_op];
}

const char* NameOf(UnaryOp op) { return op == UnaryOp::kNegative ? "neg" : op == UnaryOp::kInvert ? "invert" : "pos"; }

}  // namespace

Operators::Operators(Journals& journals, NativeProtocols& native, Protocols& meaning)
    : fx_(journals.fx()),
      breaks_(journals.breaks()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      arguments_(journals.arguments()),
      native_(native),
      meaning_(meaning),
      sizes_(journals),
      arrays_(journals) {}

Value Operators::Unary(Activation& act, UnaryOp op, ValueView v) {
  if (op == UnaryOp::kNot) {
    const Truth truth = meaning_.IsTrue(act, v);
    if (truth == Truth::kError) return Value();
    return Value{Ref::Create(truth == Truth::kTrue ? Py_False : Py_True), kNoSource};
  }
  if (std::optional<Value> size = sizes_.Negate(op, v)) return *std::move(size);
  if (std::optional<Value> made = arrays_.Operator(NamedOperator(NameOf(op)), {v})) return *std::move(made);
  if (!arguments_.PrepareNative(v)) return Value();
  const bool fake = IsFakeTensor(v.object);
  FxCall call(fx_, {v.object});
  Value result = boundary_.RunAsLeaf(fake, [&] { return native_.Unary(act, op, v); });
  if (!boundary_.Check()) return Value();
  if (result && fake) {
    if (!breaks_.Journalled(call.RecordOperator(NamedOperator(NameOf(op)), {v.object}, result.object))) return Value();
  }
  return result;
}

Value Operators::Binary(Activation& act, int nb_op, ValueView left, ValueView right) {
  if (std::optional<Value> size = sizes_.Binary(nb_op, left, right)) return *std::move(size);
  constexpr int kFirstInplace = 13;
  // Powers of a number's own: whole ones are products, and negative ones of integers raise.
  const bool exponent = nb_op % kFirstInplace == NB_POWER;
  if (const Ref tensor = exponent ? Ref() : sizes_.OperandFor(left.object, right.object)) {
    return Binary(act, nb_op, left, ValueView(tensor, kNoSource));
  }
  // Torch's function takes the number as it is, symbolic.
  const bool by_python = PyFloat_CheckExact(right.object.get()) || PyLong_CheckExact(right.object.get());
  if (nb_op == NB_POWER && by_python && IsFakeTensor(left.object) && sizes_.Holds(right.object)) {
    static PyObject* const power = PyObject_GetAttrString(THPVariableClass, "pow");
    const ValueView operands[] = {left, right};
    return meaning_.Call(act, ValueView(power, kNoSource), operands, BorrowedRef());
  }
  const bool divides = nb_op % kFirstInplace == NB_TRUE_DIVIDE;
  if (divides && IsFakeTensor(right.object) && sizes_.Holds(left.object)) {
    const Ref one = Ref::Steal(PyLong_FromLong(1));  // torch's n / x is a product with the reciprocal
    const Value reciprocal = Binary(act, NB_TRUE_DIVIDE, ValueView(one, kNoSource), right);
    return reciprocal ? Binary(act, NB_MULTIPLY, reciprocal, left) : Value();
  }
  if (const Ref tensor = sizes_.OperandFor(right.object, left.object)) {
    return Binary(act, nb_op, ValueView(tensor, kNoSource), right);
  }
  if (nb_op >= kFirstInplace && IsOwnArray(objects_, left.object)) {
    const ArrayWriter writer{fx_, breaks_, boundary_, objects_, arguments_};
    return writer.Write(OperatorFunction(nb_op), {left, right});
  }
  if (std::optional<Value> made = arrays_.Binary(nb_op, left, right)) return *std::move(made);
  Tracked* t = objects_.Find(left.object);
  const bool untracked = t == nullptr && objects_.Find(right.object) == nullptr;
  const bool joins = untracked && sizes_.Joins(nb_op, left.object, right.object);
  const bool templates = untracked && nb_op % kFirstInplace == NB_ADD && IsTemplate(left.object);
  for (const ValueView& v : {left, right}) {  // joined symbolic sizes and templates' parts are moved, and not looked at
    const bool moved =
        (joins && (sizes_.Holds(v.object) || PyList_CheckExact(v.object.get()))) || (templates && IsTemplate(v.object));
    if (!moved && !arguments_.PrepareNative(v)) return Value();
  }
  const bool formats = PyUnicode_Check(left.object.get()) || PyBytes_Check(left.object.get());
  if (formats && !arguments_.HaveTextOfTheirOwn(absl::MakeConstSpan(&right, 1))) return Value();
  if (t != nullptr && nb_op >= kFirstInplace) {
    if (t->kind == TrackedKind::kList || t->kind == TrackedKind::kDict || t->kind == TrackedKind::kSet ||
        t->kind == TrackedKind::kDeque || t->kind == TrackedKind::kInstanceDict) {
      if (!writes_.Replace(*t)) return Value();
    }
  }
  const bool fake = IsFakeTensor(left.object) || IsFakeTensor(right.object);
  FxCall call(fx_, {left.object, right.object});
  Value result = boundary_.RunAsLeaf(fake, [&] { return native_.Binary(act, nb_op, left, right); });
  if (!boundary_.Check()) return Value();
  if (result && fake) {
    const BorrowedRef function = OperatorFunction(nb_op);
    if (!breaks_.Journalled(call.RecordOperator(function, {left.object, right.object}, result.object))) return Value();
  }
  return result;
}

Value Operators::Compare(Activation& act, int py_op, ValueView left, ValueView right) {
  if (const std::optional<bool> holds = sizes_.Compare(py_op, left, right)) {
    if (IsNumpyNumberType(left.object.type()) || IsNumpyNumberType(right.object.type())) {
      const HookScope own(HookMode::kOff);
      return Value{Ref::Steal(PyObject_RichCompare(left.object, right.object, py_op)), kNoSource};  // a numpy.bool
    }
    return Value{Ref::Create(*holds ? Py_True : Py_False), kNoSource};
  }
  if (const Ref tensor = sizes_.OperandFor(left.object, right.object)) {
    return Compare(act, py_op, left, ValueView(tensor, kNoSource));
  }
  if (const Ref tensor = sizes_.OperandFor(right.object, left.object)) {
    return Compare(act, py_op, ValueView(tensor, kNoSource), right);
  }
  if ((py_op == Py_EQ || py_op == Py_NE) && (IsOtherText(reads_, left, right) || IsOtherText(reads_, right, left))) {
    return Value{Ref::Create(py_op == Py_NE ? Py_True : Py_False), kNoSource};
  }
  Tracked* l = objects_.Find(left.object);
  Tracked* r = objects_.Find(right.object);
  if (l == nullptr && r == nullptr) {
    if (const std::optional<bool> holds = sizes_.CompareSequences(py_op, left, right)) {
      return Value{Ref::Create(*holds ? Py_True : Py_False), kNoSource};
    }
  }
  const bool by_identity = l != nullptr && (l->kind == TrackedKind::kInstance || l->kind == TrackedKind::kFunction);
  if (by_identity && r != nullptr && l != r && l->kind == r->kind) {
    reads_.AddGuard(l->source, GuardKind::kDistinctFrom, nullptr, r->source);  // equality may fall back to identity
  }
  if (std::optional<Value> made = arrays_.Operator(NamedOperator(CompareName(py_op)), {left, right})) {
    return *std::move(made);
  }
  if (!arguments_.PrepareNative(left) || !arguments_.PrepareNative(right)) return Value();
  const bool fake = IsFakeTensor(left.object) || IsFakeTensor(right.object);
  FxCall call(fx_, {left.object, right.object});
  Value result = boundary_.RunAsLeaf(fake, [&] { return native_.Compare(act, py_op, left, right); });
  if (!boundary_.Check()) return Value();
  if (result && fake) {
    const BorrowedRef function = NamedOperator(CompareName(py_op));
    if (!breaks_.Journalled(call.RecordOperator(function, {left.object, right.object}, result.object))) return Value();
  }
  return result;
}

}  // namespace framefuse
