// ValueSlice: the operators of a recording that some of its values follow from, as a program that can be run on
// tensors. Invariant: none of them draws random numbers, what they write of an input is a copy, and they are all that
// wrote what they read: on the inputs as they were at the recording's start they give what eager has where the
// recording stands, and nothing that follows from memory that nobody set. A slice owns all that it needs, and lives on
// after the recording.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_VALUE_SLICE_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_VALUE_SLICE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "backends/graph/graph.h"

namespace framefuse::tracing {

// What may have part in a slice.
struct SliceLimits {
  std::size_t most_nodes = 64;
  std::int64_t most_elements = 1 << 16;  // of one tensor
  bool on_cpu = true;                    // only
  // For a hint: any operator of ATen's that draws no random numbers, with symbols at their hints.
  bool for_hint = false;
  // Inputs that the program may have written, and how many elements they may have then: each run has copies of them.
  std::vector<ir::ValueId> inputs;
  std::int64_t most_copied = 0;
  // Whether it may begin at an input.
  std::function<bool(ir::ValueId)> takes_input;
  // Whether its operators' sizes and numbers may be made of a symbol; absent: of none.
  std::function<bool(ir::SymbolIndex)> takes_symbol;
};

class ValueSlice {
 public:
  // nullopt: something else than what the limits allow has part in one of `wanted`.
  static std::optional<ValueSlice> Of(const ir::Graph& graph, const std::vector<ir::ValueId>& wanted,
                                      const SliceLimits& limits);

  std::size_t size() const { return wanted_.size(); }
  std::size_t nodes() const { return nodes_.size(); }
  // The inputs that it begins at, once each.
  const std::vector<ir::ValueId>& inputs() const { return inputs_; }
  // The symbols that sizes and numbers in it are made of, once each.
  const std::vector<ir::SymbolIndex>& symbols() const { return symbols_; }
  // The wanted values for tensors that stand at inputs() and numbers at symbols(), as bits; nullopt: an operator's
  // result is none that it can use, or they follow from memory that nobody set. Errors of operators come out as
  // c10::Error.
  [[nodiscard]] std::optional<std::vector<at::Tensor>> Run(absl::Span<const at::Tensor> inputs,
                                                           absl::Span<const std::int64_t> symbols = {}) const;
  // The i-th wanted value as a Python expression.
  [[nodiscard]] std::string Expression(std::size_t i, absl::Span<const std::string> names,
                                       absl::Span<const std::string> symbol_names = {}) const;

 private:
  using Values = absl::flat_hash_map<ir::ValueId, at::Tensor>;

  void TakeSymbols(const ir::ExprTable& exprs, const ir::Node& n);
  [[nodiscard]] std::optional<std::vector<std::int64_t>> NumbersOf(absl::Span<const std::int64_t> symbols) const;
  [[nodiscard]] std::optional<std::vector<at::Tensor>> RunOn(absl::Span<const at::Tensor> inputs,
                                                             absl::Span<const std::int64_t> numbers,
                                                             std::uint8_t unset) const;

  std::vector<ir::Node> nodes_;  // in order
  bool has_writes_ = false;
  bool has_unset_ = false;  // some ask for memory that nobody set, and it matters
  std::vector<ir::ValueId> inputs_;
  std::vector<bool> copied_;  // of inputs_: whether a node writes its memory
  std::vector<ir::ValueId> wanted_;
  Values constants_;
  std::vector<ir::SymbolIndex> symbols_;
  ir::ExprTable exprs_;  // empty without symbols
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_VALUE_SLICE_H_
