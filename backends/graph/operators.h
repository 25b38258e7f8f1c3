// The registry of operators: those that code knows, a row each in operators.def, and what rows say of operators by
// name. A name stands in those rows only: code says OpName::kMm, or asks for a fact.
// Invariant: an operator's rows are looked up once, when it is interned; afterwards a fact is a bit of the Op.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_OPERATORS_H_
#define FRAMEFUSE_BACKENDS_GRAPH_OPERATORS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "backends/graph/op.h"

namespace framefuse::ir {

// k, and the words of torch's name: aten.add.Tensor is kAddTensor, aten.relu_ kRelu_, aten._softmax k_Softmax.
enum class OpName : std::uint16_t {
  kUnknown,  // no code names it
#define FF_OP(id, name, ...) id,
#include "backends/graph/operators.def"
};

inline constexpr std::size_t kOpNames = 1
#define FF_OP(id, name, ...) +1
#include "backends/graph/operators.def"
    ;

// What rows say, that no schema does.
enum class OpFact : std::uint64_t {
  kAten = 1ull << 0,           // of torch's own namespace
  kPrims = 1ull << 1,          // … of its namespace of primitives
  kOfProcesses = 1ull << 2,    // all processes of a group must come to it, in one order
  kConditional = 1ull << 3,    // one of two branches is run
  kPointwise = 1ull << 4,      // Op::is_pointwise, without torch's tag
  kSizedByValues = 1ull << 5,  // Op::is_sized_by_values, without torch's tag
  kForeach = 1ull << 6,        // each element of lists for itself
  kConverts = 1ull << 7,       // on the CPU operands become one type before strides are chosen, as with pointwise ones
  kCalledAgain = 1ull << 8,  // changes what its tensor is a view of: on an input the method is called behind the graph
  // What it raises on arguments that its kernel for metadata takes. Neither: it may.
  kNeverRaises = 1ull << 9,
  kRaisesOnCpu = 1ull << 10,  // on a device later, and elsewhere
  kDivides = 1ull << 11,      // raises where integers are divided by zero
  kBelieves = 1ull << 12,     // does not ask its arguments (BelievesItsArguments)
  // What its results follow from.
  kDetermined = 1ull << 13,       // its operands: no state, no generator, no memory that nobody set
  kDeterminedWrite = 1ull << 14,  // so does what it writes, and nothing is resized
  kUnset = 1ull << 15,            // memory that nobody set
  kMaybeUnset = 1ull << 16,       // or that of another library
  kUniformDraw = 1ull << 17,      // a draw from 0 to below 1
  kGivesBools = 1ull << 18,       // also where what it writes is of another type
  kCutsGradient = 1ull << 19,     // elements without a derivative
  // Where torch's kernels for metadata are not to be believed.
  // The meta device lays out row by row what a kernel makes and fills itself, or like the operand what eager lays out
  // row by row; a convolution of the CPU's like its operands.
  kMetaStridesWrong = 1ull << 20,
  // The meta device gives statistics that the CPU's kernel does not keep, or asks the ends of a range for values.
  kMetaWrong = 1ull << 21,
  // The recorder runs the CPU's kernel on zeros instead: strides follow the library that computes it, and for a
  // triangular solve whether a conjugate came in; which outputs stay empty follows the path it takes; the type of
  // statistics follows that of parameters that are not of the input's (shapes/ has what is of one type); the loss of
  // one sample without a dimension has none.
  kRunForMetadata = 1ull << 22,
  kTakesEmpties =
      1ull << 23,  // its kernel takes operands without elements; a concatenation refuses what its shape rule does
  kTakesAnyShape = 1ull << 24,   // writes self, and keeps its shape whatever it is
  kWritesExpanded = 1ull << 25,  // without a warning
  // On a device.
  kWaits = 1ull << 26,      // copies to the host or waits, without a tag that says so
  kIndexes = 1ull << 27,    // waits to count the elements of a mask
  kAttention = 1ull << 28,  // with seeds for its dropout
  kFlashAttention = 1ull << 29,
  kEfficientAttention = 1ull << 30,
  kCopies = 1ull << 31,
  kTranscendental = 1ull << 32,  // on a CPU an element costs about as much as moving it a few times
  kWarnsOfSizes = 1ull << 33,    // each time, and of nothing else (unsaid_warnings.h)
};

OpName NameOf(OpId op);
OpName NameOf(std::string_view printed_name);
bool Has(OpId op, OpFact fact);
inline bool Is(OpId op, OpName name) { return NameOf(op) == name; }
std::string_view TextOf(OpName name);
// Fatal if this torch has no such operator.
OpId RequireOp(OpName name);

// What rows say of a name, for whoever interns an operator.
struct OpRow {
  OpName name = OpName::kUnknown;
  std::uint64_t facts = 0;
};
OpRow RowOf(std::string_view printed_name);

// A set of known operators.
class OpNames {
 public:
  constexpr OpNames(std::initializer_list<OpName> names) {
    for (const OpName n : names) has_[static_cast<std::size_t>(n)] = true;
  }
  constexpr bool contains(OpName name) const { return has_[static_cast<std::size_t>(name)]; }
  bool contains(OpId op) const { return contains(NameOf(op)); }

 private:
  std::array<bool, kOpNames> has_{};
};

// A table by operator: T() where it has no row.
template <typename T>
class ByOp {
 public:
  constexpr ByOp(std::initializer_list<std::pair<OpName, T>> rows) {
    for (const auto& [name, value] : rows) of_[static_cast<std::size_t>(name)] = value;
  }
  constexpr const T& operator[](OpName name) const { return of_[static_cast<std::size_t>(name)]; }
  const T& operator[](OpId op) const { return (*this)[NameOf(op)]; }

 private:
  std::array<T, kOpNames> of_{};
};

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_OPERATORS_H_
