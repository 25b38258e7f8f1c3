// SizeOperations: calls and operators on symbolic sizes that stay symbolic: arithmetic, comparisons, min, max, len …
// Any other code that looks at such a number pins it (ReadJournal::Consume). Invariant: nothing is done to numbers that
// are not symbolic, so that plain code pays one look.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_SIZE_OPERATIONS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_SIZE_OPERATIONS_H_

#include <optional>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "symbolic/evaluator/protocols.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/tracing/numbers.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

class Journals;
class ObjectContents;
class ObjectTable;
class ReadJournal;

class SizeOperations {
 public:
  explicit SizeOperations(Journals& journals);

  // Nothing: no symbolic size is in it, or it is not one of the operations that keep it symbolic.
  std::optional<Value> Binary(int nb_op, ValueView left, ValueView right);
  std::optional<Value> Negate(UnaryOp op, ValueView v);
  std::optional<bool> Compare(int py_op, ValueView left, ValueView right);
  std::optional<bool> IsTrue(ValueView v);
  // Of sequences that are not tracked, sizes of tensors among them: put together, or repeated.
  bool Joins(int nb_op, BorrowedRef left, BorrowedRef right) const;
  std::optional<bool> CompareSequences(int py_op, ValueView left, ValueView right);
  bool Holds(BorrowedRef object) const { return tracer_.numbers().Holds(object); }
  std::optional<Value> Call(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  std::optional<Value> LengthOf(ValueView tensor);
  // int() or float() of a tensor whose value the graph computes.
  std::optional<Value> NumberOf(ValueView tensor, bool is_float);

  // What an operator of a tensor and a symbolic size takes for the size: a tensor of no dimensions. Null: no such case.
  Ref OperandFor(BorrowedRef tensor, BorrowedRef number);

 private:
  std::optional<Value> OfNumbers(std::string_view name, absl::Span<const ValueView> args);
  std::optional<Value> Extreme(bool largest, absl::Span<const ValueView> numbers);
  // Of one sequence of numbers.
  std::optional<Value> ExtremeOf(bool largest, BorrowedRef sequence);
  std::optional<Value> Absolute(ValueView number);
  std::optional<Value> LogarithmToBase(ValueView number, ValueView base);
  // Those of the math module whose results are floats.
  std::optional<Value> OfFloats(std::string_view name, absl::Span<const ValueView> args);
  std::optional<Value> Apply(tracing::NumberFunction function, ValueView number);
  std::optional<Value> DivideWithRest(ValueView left, ValueView right);
  // By a small whole number that is not symbolic.
  std::optional<Value> Power(ValueView base, ValueView exponent);
  std::optional<Value> PowerModulo(ValueView base, ValueView exponent, ValueView modulus);
  // x.is_integer(), n.bit_length(), math.isfinite(x).
  std::optional<Value> OfMethod(std::string_view name, ValueView number);
  std::optional<Value> Fold(tracing::SizeArithmetic operation, BorrowedRef sequence, std::int64_t start);
  // All of them are there, and have guards: what is computed of symbolic ones follows from the others. False: broke.
  [[nodiscard]] bool ReadItems(BorrowedRef sequence);
  bool IsSymbolic(ValueView v) const { return tracer_.numbers().IsSymbolic(v.object); }
  Value Done(Ref object) { return Value{std::move(object), kNoSource}; }

  tracing::Tracer& tracer_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  ObjectContents& contents_;
};

// Arguments with SymInts in the places of symbolic sizes, for a call of torch's. Where torch would make a tensor of a
// number (x.mul(n)) they are fakes, or plain numbers.
class TorchArguments {
 public:
  TorchArguments(tracing::Numbers& numbers, absl::Span<const ValueView> args);
  TorchArguments(tracing::Numbers& numbers, BorrowedRef callable, absl::Span<const ValueView> args,
                 BorrowedRef kwnames);
  absl::Span<const ValueView> args() const { return args_; }

 private:
  void Replace(std::size_t i, Ref made);
  void TakeTensors(BorrowedRef tensor, BorrowedRef kwnames, bool integers_name_devices);

  tracing::Numbers& numbers_;
  absl::InlinedVector<ValueView, 8> changed_;
  absl::InlinedVector<Ref, 4> held_;
  absl::Span<const ValueView> args_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_SIZE_OPERATIONS_H_
