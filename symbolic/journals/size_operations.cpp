#include "symbolic/journals/size_operations.h"

#include <opcode.h>
#include <torch/csrc/Size.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_arg_parser.h>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "symbolic/journals/fakes.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/number_methods.h"
#include "symbolic/journals/numpy_operations.h"
#include "symbolic/journals/object_contents.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/messages/code_text.h"

namespace framefuse {
namespace {

std::optional<tracing::SizeArithmetic> ArithmeticOf(int nb_op) {
  switch (nb_op % NB_INPLACE_ADD) {
    case NB_ADD:
      return tracing::SizeArithmetic::kAdd;
    case NB_SUBTRACT:
      return tracing::SizeArithmetic::kSubtract;
    case NB_MULTIPLY:
      return tracing::SizeArithmetic::kMultiply;
    case NB_FLOOR_DIVIDE:
      return tracing::SizeArithmetic::kFloorDivide;
    case NB_REMAINDER:
      return tracing::SizeArithmetic::kModulo;
    case NB_TRUE_DIVIDE:
      return tracing::SizeArithmetic::kTrueDivide;
    case NB_POWER:
      return tracing::SizeArithmetic::kPower;
    default:
      return std::nullopt;
  }
}

bool IsInteger(BorrowedRef object) { return PyLong_CheckExact(object.get()); }
// torch.max and its like have the names of Python's functions.
bool IsOfModule(PyObject* function, std::string_view module) {
  PyObject* const self = PyCFunction_GET_SELF(function);
  if (self == nullptr || !PyModule_Check(self)) return false;
  const char* const name = PyModule_GetName(self);
  if (name == nullptr) PyErr_Clear();
  return name != nullptr && name == module;
}

std::optional<tracing::NumberFunction> FunctionNamed(std::string_view name) {
  using tracing::NumberFunction;
  static constexpr std::pair<std::string_view, NumberFunction> kFunctions[] = {
      {"floor", NumberFunction::kFloor}, {"ceil", NumberFunction::kCeil},       {"round", NumberFunction::kRound},
      {"sqrt", NumberFunction::kSqrt},   {"isqrt", NumberFunction::kWholeSqrt}, {"trunc", NumberFunction::kTruncate},
      {"log", NumberFunction::kLog},     {"log2", NumberFunction::kLog2},       {"exp", NumberFunction::kExp},
  };
  for (const auto& [known, function] : kFunctions) {
    if (known == name) return function;
  }
  return std::nullopt;
}

// A number beside a tensor, whose value torch looks at, is computed with as a tensor of no dimensions is.
bool TakesTensorsToo(std::string_view function) {
  return function == "fmod" || function == "fmod_" || function == "remainder" || function == "remainder_";
}

bool IsNumber(BorrowedRef object) { return IsInteger(object) || PyFloat_CheckExact(object.get()); }

}  // namespace

SizeOperations::SizeOperations(Journals& journals)
    : tracer_(journals.tracer()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      contents_(journals.contents()) {}

bool SizeOperations::ReadItems(BorrowedRef sequence) {
  Tracked* t = objects_.Find(sequence);
  return (t == nullptr || contents_.Realise(*t, true)) && boundary_.Check();
}

std::optional<Value> SizeOperations::Binary(int nb_op, ValueView left, ValueView right) {
  if (tracer_.numbers().none() || (!IsSymbolic(left) && !IsSymbolic(right))) return std::nullopt;
  const auto operation = ArithmeticOf(nb_op);
  if (operation) {
    if (Ref made = CombineOfNumpy(tracer_.numbers(), reads_, *operation, left, right)) return Done(std::move(made));
  }
  if (!IsNumber(left.object) || !IsNumber(right.object)) return std::nullopt;
  if (!IsSymbolic(left)) reads_.Consume(left);
  if (!IsSymbolic(right)) reads_.Consume(right);
  if (!operation) {
    Ref bits = CombineBits(tracer_.numbers(), nb_op, left.object, right.object);
    return bits ? std::optional(Done(std::move(bits))) : std::nullopt;
  }
  if (*operation == tracing::SizeArithmetic::kPower) {
    if (std::optional<Value> power = Power(left, right)) return power;
  }
  Ref made = tracer_.numbers().Combine(*operation, left.object, right.object);
  if (!made) return std::nullopt;
  return Done(std::move(made));
}

std::optional<Value> SizeOperations::Negate(UnaryOp op, ValueView v) {
  if (!IsSymbolic(v)) return std::nullopt;
  if (op == UnaryOp::kPositive && IsNumber(v.object)) return Value{Ref::Create(v.object), v.source};
  if (op == UnaryOp::kInvert && IsInteger(v.object)) {
    Ref inverted = InvertBits(tracer_.numbers(), v.object);
    return inverted ? std::optional(Done(std::move(inverted))) : std::nullopt;
  }
  if (op != UnaryOp::kNegative) return std::nullopt;
  if (!IsNumber(v.object)) {
    Ref made = NegateOfNumpy(tracer_.numbers(), v);
    return made ? std::optional(Done(std::move(made))) : std::nullopt;
  }
  return Done(tracer_.numbers().Negate(v.object));
}

std::optional<bool> SizeOperations::Compare(int py_op, ValueView left, ValueView right) {
  if (tracer_.numbers().none() || (!IsSymbolic(left) && !IsSymbolic(right))) return std::nullopt;
  if (!IsNumber(left.object) || !IsNumber(right.object)) {
    return CompareOfNumpy(tracer_.numbers(), reads_, py_op, left, right);
  }
  if (!IsSymbolic(left)) reads_.Consume(left);
  if (!IsSymbolic(right)) reads_.Consume(right);
  return tracer_.numbers().Compare(py_op, left.object, right.object);
}

std::optional<bool> SizeOperations::IsTrue(ValueView v) {
  if (!IsSymbolic(v)) return std::nullopt;
  const Ref zero = Ref::Steal(PyLong_FromLong(0));
  return tracer_.numbers().Compare(Py_NE, v.object, zero);
}

bool SizeOperations::Joins(int nb_op, BorrowedRef left, BorrowedRef right) const {
  if (tracer_.numbers().none()) return false;
  const auto is_tuple = [](BorrowedRef o) { return PyTuple_CheckExact(o.get()) || THPSize_Check(o.get()); };
  const auto is_list = [](BorrowedRef o) { return PyList_CheckExact(o.get()) != 0; };
  if (nb_op == NB_ADD) return (is_tuple(left) && is_tuple(right)) || (is_list(left) && is_list(right));
  const auto is_count = [&](BorrowedRef o) { return IsInteger(o) && !tracer_.numbers().IsSymbolic(o); };
  if (nb_op != NB_MULTIPLY) return false;
  return is_count(right) ? is_tuple(left) || is_list(left) : is_count(left) && (is_tuple(right) || is_list(right));
}

std::optional<bool> SizeOperations::CompareSequences(int py_op, ValueView left, ValueView right) {
  if (py_op != Py_EQ && py_op != Py_NE) return std::nullopt;
  if (!Holds(left.object) && !Holds(right.object)) return std::nullopt;
  PyObject *l = left.object, *r = right.object;
  if (!PyTuple_Check(l) || !PyTuple_Check(r)) return std::nullopt;
  for (const ValueView& v : {left, right}) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(v.object.get()); ++i) {
      if (!IsInteger(PyTuple_GET_ITEM(v.object.get(), i))) return std::nullopt;
    }
    if (!Holds(v.object)) reads_.Consume(v);
  }
  bool same = PyTuple_GET_SIZE(l) == PyTuple_GET_SIZE(r);
  for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(l); ++i) {
    const auto equal = tracer_.numbers().Compare(Py_EQ, PyTuple_GET_ITEM(l, i), PyTuple_GET_ITEM(r, i));
    if (!equal) return std::nullopt;
    same = *equal;
  }
  return same == (py_op == Py_EQ);
}

// The first of equals, as Python gives.
std::optional<Value> SizeOperations::Extreme(bool largest, absl::Span<const ValueView> numbers) {
  ValueView best = numbers[0];
  Ref computed;
  for (const ValueView& v : numbers.subspan(1)) {
    if (Ref made = tracer_.numbers().Extreme(largest, best.object, v.object)) {
      computed = std::move(made);
      best = ValueView(computed, kNoSource);
      continue;
    }
    const std::optional<bool> better = tracer_.numbers().Compare(largest ? Py_GT : Py_LT, v.object, best.object);
    if (!better) return std::nullopt;
    if (*better) best = v;
  }
  return Value{Ref::Create(best.object), best.source};
}

std::optional<Value> SizeOperations::ExtremeOf(bool largest, BorrowedRef sequence) {
  if (!PyTuple_Check(sequence.get()) && !PyList_CheckExact(sequence.get())) return std::nullopt;
  if (!ReadItems(sequence)) return Value();
  absl::InlinedVector<ValueView, 8> items;
  bool symbolic = false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i) {
    const BorrowedRef item(PySequence_Fast_GET_ITEM(sequence.get(), i));
    if (!IsNumber(item)) return std::nullopt;
    symbolic = symbolic || tracer_.numbers().IsSymbolic(item);
    items.emplace_back(item, kNoSource);
  }
  return symbolic ? Extreme(largest, items) : std::nullopt;
}

std::optional<Value> SizeOperations::Absolute(ValueView number) {
  if (!IsSymbolic(number)) return std::nullopt;
  if (Ref made = tracer_.numbers().Absolute(number.object)) return Done(std::move(made));
  const Ref zero = Ref::Steal(PyLong_FromLong(0));
  const std::optional<bool> keeps = tracer_.numbers().Compare(Py_GE, number.object, zero);
  if (!keeps) return std::nullopt;
  if (*keeps) return Value{Ref::Create(number.object), number.source};
  Ref negated = tracer_.numbers().Negate(number.object);
  return negated ? std::optional(Done(std::move(negated))) : std::nullopt;
}

namespace {
std::optional<ir::ExprKind> FloatFunctionNamed(std::string_view name) {
  if (name == "fabs") return ir::ExprKind::kAbs;
  const std::optional<ir::ExprKind> kind = name == "abs" ? std::nullopt : ir::FunctionNamed(name);
  return kind && ir::IsFloatFunction(*kind) ? kind : std::nullopt;
}
}  // namespace

std::optional<Value> SizeOperations::OfFloats(std::string_view name, absl::Span<const ValueView> args) {
  tracing::Numbers& numbers = tracer_.numbers();
  for (const ValueView& v : args) {
    if (!IsSymbolic(v)) reads_.Consume(v);
  }
  constexpr double kHalfTurn = 180.0;
  Ref made;
  if (const std::optional<ir::ExprKind> kind = FloatFunctionNamed(name)) {
    if (ir::OperandsOf(*kind) != static_cast<int>(args.size())) return std::nullopt;
    made = numbers.Apply(*kind, args[0].object, args.size() > 1 ? args[1].object : BorrowedRef());
  } else if (args.size() == 1 && (name == "degrees" || name == "radians")) {
    const double factor = name == "degrees" ? kHalfTurn / M_PI : M_PI / kHalfTurn;
    made = numbers.Combine(tracing::SizeArithmetic::kMultiply, args[0].object, Ref::Steal(PyFloat_FromDouble(factor)));
  } else if (args.size() == 2 && name == "pow" && numbers.Find(args[0].object) && numbers.Find(args[1].object)) {
    const Ref base = numbers.ToFloat(args[0].object), exponent = numbers.ToFloat(args[1].object);
    if (base && exponent) made = numbers.Combine(tracing::SizeArithmetic::kPower, base, exponent);
  }
  return made ? std::optional(Done(std::move(made))) : std::nullopt;
}

std::optional<Value> SizeOperations::Apply(tracing::NumberFunction function, ValueView number) {
  Ref made = tracer_.numbers().Apply(function, number.object);
  return made ? std::optional(Done(std::move(made))) : std::nullopt;
}

std::optional<Value> SizeOperations::LogarithmToBase(ValueView number, ValueView base) {
  for (const ValueView& v : {number, base}) {
    if (!IsSymbolic(v)) reads_.Consume(v);
  }
  tracing::Numbers& numbers = tracer_.numbers();
  const Ref above = numbers.Apply(tracing::NumberFunction::kLog, number.object);
  const Ref below = above ? numbers.Apply(tracing::NumberFunction::kLog, base.object) : Ref();
  Ref made = below ? numbers.Combine(tracing::SizeArithmetic::kTrueDivide, above, below) : Ref();
  return made ? std::optional(Done(std::move(made))) : std::nullopt;
}

std::optional<Value> SizeOperations::DivideWithRest(ValueView left, ValueView right) {
  const std::optional<Value> quotient = Binary(NB_FLOOR_DIVIDE, left, right);
  const std::optional<Value> rest = quotient ? Binary(NB_REMAINDER, left, right) : std::nullopt;
  if (!rest) return std::nullopt;
  return Done(Ref::Steal(PyTuple_Pack(2, quotient->object.get(), rest->object.get())));
}

std::optional<Value> SizeOperations::Power(ValueView base, ValueView exponent) {
  constexpr long kLargest = 4;
  if (!IsInteger(base.object) || !IsInteger(exponent.object) || IsSymbolic(exponent)) return std::nullopt;
  int overflow = 0;
  const long times = PyLong_AsLongAndOverflow(exponent.object, &overflow);
  if (overflow != 0 || times < 1 || times > kLargest) return std::nullopt;
  Ref product = Ref::Create(base.object);
  for (long i = 1; i < times && product; ++i) {
    product = tracer_.numbers().Combine(tracing::SizeArithmetic::kMultiply, product, base.object);
  }
  return product ? std::optional(Done(std::move(product))) : std::nullopt;
}

// Both operands of the remainder fit, or it is left to Python.
std::optional<Value> SizeOperations::PowerModulo(ValueView base, ValueView exponent, ValueView modulus) {
  if (!IsInteger(base.object) || !IsInteger(exponent.object) || !IsInteger(modulus.object)) return std::nullopt;
  if (!IsSymbolic(base) || IsSymbolic(exponent)) return std::nullopt;
  reads_.Consume(exponent);
  const std::optional<Value> power = Power(base, exponent);
  return power ? Binary(NB_REMAINDER, ValueView(power->object, kNoSource), modulus) : std::nullopt;
}

std::optional<Value> SizeOperations::OfMethod(std::string_view name, ValueView number) {
  if (name == "bit_length" && IsInteger(number.object)) {
    Ref length = BitLength(tracer_.numbers(), number.object);
    return length ? std::optional(Done(std::move(length))) : std::nullopt;
  }
  if (!IsNumber(number.object)) return std::nullopt;
  const std::optional<bool> answer = AskNumber(tracer_.numbers(), name, number.object);
  return answer ? std::optional(Done(Ref::Create(*answer ? Py_True : Py_False))) : std::nullopt;
}

std::optional<Value> SizeOperations::Fold(tracing::SizeArithmetic operation, BorrowedRef sequence, std::int64_t start) {
  if (!PyTuple_Check(sequence.get()) && !PyList_CheckExact(sequence.get())) return std::nullopt;
  if (!ReadItems(sequence)) return Value();
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(sequence.get());
  Ref result = Ref::Steal(PyLong_FromLongLong(start));
  bool symbolic = false;
  for (Py_ssize_t i = 0; i < size; ++i) {
    const BorrowedRef item(PySequence_Fast_GET_ITEM(sequence.get(), i));
    if (!IsInteger(item)) return std::nullopt;
    symbolic = symbolic || tracer_.numbers().IsSymbolic(item);
    result = tracer_.numbers().Combine(operation, result, item);
    if (!result) return std::nullopt;
  }
  if (!symbolic) return std::nullopt;
  return Done(std::move(result));
}

std::optional<Value> SizeOperations::Call(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  if (kwnames || args.empty()) return std::nullopt;
  PyObject* o = callable;
  const bool to_float = o == reinterpret_cast<PyObject*>(&PyFloat_Type);
  const bool converts = to_float || o == reinterpret_cast<PyObject*>(&PyLong_Type);
  if (converts && args.size() == 1 && IsFakeTensor(args[0].object)) return NumberOf(args[0], to_float);
  if (tracer_.numbers().none()) return std::nullopt;
  if (args.size() == 1 && IsOfNumpy(tracer_.numbers(), args[0].object)) {
    const Ref plain = converts ? PlainNumberOf(tracer_.numbers(), args[0].object) : Ref();
    const ValueView of[] = {ValueView(plain, kNoSource)};
    return plain ? Call(callable, of, kwnames) : std::nullopt;
  }
  if (converts) {
    if (args.size() != 1 || !IsSymbolic(args[0])) return std::nullopt;
    const bool same = to_float != IsInteger(args[0].object);
    if (!same && !to_float) return Apply(tracing::NumberFunction::kTruncate, args[0]);
    if (!same) return Done(tracer_.numbers().ToFloat(args[0].object));
    return Value{Ref::Create(args[0].object), args[0].source};
  }
  const bool method = Py_TYPE(o) == &PyMethodDescr_Type;
  if (!PyCFunction_Check(o) && !method) return std::nullopt;
  const std::string_view name = NameOfCallable(callable);
  if (method) {
    const bool numel = name == "numel" && args.size() == 1 && PyTuple_Check(args[0].object.get());
    if (numel) return Fold(tracing::SizeArithmetic::kMultiply, args[0].object, 1);
    return args.size() == 1 && IsSymbolic(args[0]) ? OfMethod(name, args[0]) : std::nullopt;
  }
  const bool is_builtin = IsOfModule(o, "builtins");
  if (!is_builtin && !IsOfModule(o, "math")) return std::nullopt;
  if (is_builtin && name == "pow") {
    if (args.size() == 3) return PowerModulo(args[0], args[1], args[2]);
    return args.size() == 2 ? Binary(NB_POWER, args[0], args[1]) : std::nullopt;
  }
  if ((name == "prod" || name == "sum") && args.size() == 1) {
    const bool sums = name == "sum";
    return Fold(sums ? tracing::SizeArithmetic::kAdd : tracing::SizeArithmetic::kMultiply, args[0].object,
                sums ? 0 : 1);
  }
  return OfNumbers(name, args);
}

std::optional<Value> SizeOperations::OfNumbers(std::string_view name, absl::Span<const ValueView> args) {
  const bool extreme = name == "max" || name == "min";
  if (extreme && args.size() == 1) return ExtremeOf(name == "max", args[0].object);
  bool symbolic = false;
  for (const ValueView& v : args) {
    if (!IsNumber(v.object)) return std::nullopt;
    symbolic = symbolic || IsSymbolic(v);
  }
  if (name == "abs" && args.size() == 1) return Absolute(args[0]);
  if (symbolic && args.size() == 1) {
    if (const std::optional<tracing::NumberFunction> function = FunctionNamed(name)) return Apply(*function, args[0]);
    if (std::optional<Value> answer = OfMethod(name, args[0])) return answer;
    return OfFloats(name, args);
  }
  if (name == "log" && args.size() == 2 && symbolic) return LogarithmToBase(args[0], args[1]);
  if (name == "divmod" && args.size() == 2 && symbolic) return DivideWithRest(args[0], args[1]);
  if (name == "round" && args.size() == 2 && symbolic) {
    reads_.Consume(args[1]);
    Ref rounded = RoundToPlaces(tracer_.numbers(), args[0].object, args[1].object);
    return rounded ? std::optional(Done(std::move(rounded))) : std::nullopt;
  }
  if (symbolic && args.size() == 2 && !extreme) return OfFloats(name, args);
  if (!symbolic || !extreme || args.size() < 2) return std::nullopt;
  for (const ValueView& v : args) {
    if (!IsSymbolic(v)) reads_.Consume(v);
  }
  return Extreme(name == "max", args);
}

std::optional<Value> SizeOperations::NumberOf(ValueView tensor, bool is_float) {
  const at::Tensor& t = THPVariable_Unpack(tensor.object.get());
  if (t.dim() != 0 || t.is_complex() || !tracer_.sizes().TakesUnbacked()) return std::nullopt;
  if (t.requires_grad()) return std::nullopt;  // torch warns
  if (const Ref known = tracer_.KnownValueOf(tensor.object)) {
    const tracing::Tracer::Suspended off;
    return Done(Ref::Steal(is_float ? PyNumber_Float(known) : PyNumber_Long(known)));
  }
  Ref number = tracer_.sizes().UnbackedNumbersOf(tensor.object);
  if (!number || t.is_floating_point() == is_float) {
    return number ? std::optional(Done(std::move(number))) : std::nullopt;
  }
  return is_float ? Done(tracer_.numbers().ToFloat(number))
                  : Apply(tracing::NumberFunction::kTruncate, ValueView(number, kNoSource));
}

std::optional<Value> SizeOperations::LengthOf(ValueView tensor) {
  if (tracer_.sizes().symbols().empty() || !IsFakeTensor(tensor.object)) return std::nullopt;
  const Ref dim = Ref::Steal(PyObject_CallMethod(tensor.object, "dim", nullptr));
  if (!dim || PyLong_AsLong(dim) == 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  Ref size = Ref::Steal(boundary_.RunAsLeaf(true, [&] { return PyObject_CallMethod(tensor.object, "size", "i", 0); }));
  if (!boundary_.Check() || !size) return Value();
  return Done(tracer_.numbers().FromTorch(std::move(size)));
}

Ref SizeOperations::OperandFor(BorrowedRef tensor, BorrowedRef number) {
  if (!tracer_.numbers().IsSymbolic(number) || !IsFakeTensor(tensor)) return Ref();
  return tracer_.numbers().TensorFor(number);
}

void TorchArguments::Replace(std::size_t i, Ref made) {
  if (!made) return;
  if (changed_.empty()) changed_.assign(args_.begin(), args_.end());
  changed_[i] = ValueView(made, kNoSource);
  held_.push_back(std::move(made));
  args_ = changed_;
}

TorchArguments::TorchArguments(tracing::Numbers& numbers, absl::Span<const ValueView> args)
    : numbers_(numbers), args_(args) {
  if (numbers.none()) return;
  for (std::size_t i = 0; i < args.size(); ++i) Replace(i, numbers.ToTorch(args[i].object));
}

TorchArguments::TorchArguments(tracing::Numbers& numbers, BorrowedRef callable, absl::Span<const ValueView> args,
                               BorrowedRef kwnames)
    : numbers_(numbers), args_(args) {
  if (numbers.none()) return;
  if (TellsTypesOfNumbers(callable)) {
    for (const ValueView& v : args) PinNumpyIn(numbers, v.object);
  }
  const std::string name(NameOfCallable(callable));
  if (torch::should_allow_numbers_as_tensors(name) || TakesTensorsToo(name)) {
    PyObject* self = PyCFunction_Check(callable.get()) ? PyCFunction_GET_SELF(callable.get()) : nullptr;
    BorrowedRef tensor(self != nullptr && IsFakeTensor(self) ? self : nullptr);
    for (const ValueView& v : args) {
      if (!tensor && IsFakeTensor(v.object)) tensor = v.object;
    }
    TakeTensors(tensor, kwnames, /*integers_name_devices=*/name == "to");
  }
  const absl::Span<const ValueView> now = args_;
  for (std::size_t i = 0; i < now.size(); ++i) Replace(i, numbers.ToTorch(now[i].object));
}

// The two operands. What else has no tensor in its place is a plain number, in old signatures too (add(x, 2, y)).
void TorchArguments::TakeTensors(BorrowedRef tensor, BorrowedRef kwnames, bool integers_name_devices) {
  const std::size_t names = kwnames ? static_cast<std::size_t>(PyTuple_GET_SIZE(kwnames.get())) : 0;
  const std::size_t positional = args_.size() - names;
  for (std::size_t i = 0; i < args_.size(); ++i) {
    const BorrowedRef number = args_[i].object;
    if (!numbers_.IsSymbolic(number)) continue;
    bool operand = positional <= 2 && !(integers_name_devices && PyIndex_Check(number.get()));
    if (i >= positional) {
      PyObject* name = PyTuple_GET_ITEM(kwnames.get(), static_cast<Py_ssize_t>(i - positional));
      operand = PyUnicode_CompareWithASCIIString(name, "other") == 0;
      if (!operand) continue;  // alpha, value: torch takes them as they are
    }
    Ref made = operand && tensor ? numbers_.TensorFor(number) : Ref();
    if (!made) {
      numbers_.Pin(number);
      PyObject* o = number.get();
      if (!IsNumber(number)) continue;  // numpy's is a plain one now
      made = Ref::Steal(PyFloat_CheckExact(o) ? PyFloat_FromDouble(PyFloat_AS_DOUBLE(o))
                                              : PyLong_FromLongLong(PyLong_AsLongLong(o)));
    }
    Replace(i, std::move(made));
  }
}

}  // namespace framefuse
