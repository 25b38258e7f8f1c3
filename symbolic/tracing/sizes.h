// Sizes: the symbolic sizes of one recording, and the facts about them that the recording went by.
// Torch carries them as SymInts whose nodes (size_node.h) ask here. A question that the normal form and the ranges
// answer leaves no trace. Any other is answered for the sizes at hand, and the answer becomes a fact.
// Invariant: with sizes for which all facts hold, torch would have recorded the same graph.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_SIZES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_SIZES_H_

#include <Python.h>
#include <c10/core/Scalar.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymInt.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "backends/graph/dim_algebra.h"

namespace framefuse::tracing {

// Hears of each new fact, to note where the program stands.
class SizeListener {
 public:
  virtual ~SizeListener() = default;
  virtual void OnFact(ir::Dim fact) = 0;
};

class Sizes : public std::enable_shared_from_this<Sizes> {
 public:
  explicit Sizes(ir::ExprTable& table) : table_(&table) {}
  Sizes(const Sizes&) = delete;
  Sizes& operator=(const Sizes&) = delete;

  // The recording ends before the last SymInt does.
  void Detach() { table_ = nullptr; }
  void set_listener(SizeListener* listener) { listener_ = listener; }  // null: none

  // A size that is `hint` now, and at least 1.
  ir::Dim NewSymbol(std::int64_t hint);
  // An integer that is `hint` now, between the two of kNumbers.
  ir::Dim NewNumber(std::int64_t hint);
  ir::Dim NewFloat(double hint);
  // What the graph itself computes, `hint` in this call: a size from 0 to `most`, or an integer or float as above.
  ir::Dim NewUnbackedSize(std::int64_t hint, std::int64_t most);
  ir::Dim NewUnbackedNumber(const c10::Scalar& hint);
  bool any() const { return table_ != nullptr && !table_->symbols().empty(); }

  c10::SymInt ToSymInt(ir::Dim d);
  // A number of another recording, or of torch's, is taken for the integer that it is.
  ir::Dim ToDim(const c10::SymInt& s);
  c10::SymFloat ToSymFloat(ir::Dim d);
  ir::Dim ToDim(const c10::SymFloat& s);
  // `node`: torch's Python object of a float's node, by which it is known when it comes back.
  void NoteFloat(const PyObject* node, ir::Dim d) { floats_.insert_or_assign(node, d); }
  bool IsFloat(ir::Dim d) const { return Table().TypeOf(d) == ir::NumberType::kFloat; }
  std::int64_t HintOf(ir::Dim d) const { return Table().Hint(d); }
  double FloatHintOf(ir::Dim d) const { return std::bit_cast<double>(HintOf(d)); }
  ir::DimAlgebra Algebra() { return ir::DimAlgebra(Table()); }
  ir::ExprTable& Table() const;  // throws c10::Error after Detach

  // Whether kEq, kNe, kLt or kLe holds.
  bool Decide(ir::ExprKind comparison, ir::Dim a, ir::Dim b);
  bool DecideBool(ir::Dim condition);  // of type bool
  // The integer that a rounding (kFloor …) makes of a float, if it is one of ir::kNumbers.
  std::optional<ir::Dim> Whole(ir::ExprKind rounding, ir::Dim d);
  // Whether all that was computed of integers fits for the values at hand: torch computes, too.
  bool Fit() const;
  // What `make` makes, if it and all that it is made of fit for the values at hand; sizes always do.
  std::optional<ir::Dim> IfItFits(absl::FunctionRef<ir::Dim()> make);
  // a**b of two integers, b not below 0; nothing: it does not fit.
  std::optional<ir::Dim> IntegerPower(ir::Dim a, ir::Dim b);
  // Made of integers of the program's own only, of which no tensor has its size.
  bool IsOfNumbers(ir::Dim d) const;
  // The value at hand, which the size is to have.
  std::int64_t Pin(ir::Dim d);
  double PinFloat(ir::Dim d);  // bit by bit
  // Unbacked symbols that were pinned: a graph that computes them serves no other call.
  const std::vector<ir::SymbolIndex>& pinned_unbacked() const { return pinned_unbacked_; }
  // A float as an operand of an operator: eager refuses what is out of range for the tensor's type. Where it is near
  // that it is pinned, and a constant comes back.
  ir::Dim AsOperand(ir::Dim d);

  // Conditions, each once, in the order in which they were met.
  const std::vector<ir::Dim>& facts() const { return facts_; }

 private:
  void Note(ir::Dim condition);
  bool DecideFloats(ir::ExprKind comparison, ir::Dim a, ir::Dim b);
  void Narrow(ir::ExprKind comparison, ir::Dim a, ir::Dim b);
  ir::Dim OperandOf(ir::ExprId id);
  bool IsFactAtMost(ir::Dim a, ir::Dim b);  // two such facts of two sizes say that they are equal
  void NotePinned(ir::Dim d);

  ir::ExprTable* table_;
  SizeListener* listener_ = nullptr;
  bool has_numbers_ = false;
  std::vector<ir::SymbolIndex> pinned_unbacked_;
  std::vector<ir::Dim> facts_;
  absl::flat_hash_set<ir::ExprId> known_;
  absl::flat_hash_map<const PyObject*, ir::Dim> floats_;
  absl::flat_hash_set<std::int64_t> numbers_;  // symbols of the program's own integers, by index
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_SIZES_H_
