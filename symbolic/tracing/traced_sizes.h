// TracedSizes: the symbolic sizes and numbers of a tracing, and where each comes from.
// Invariant: each symbol of the graph has one row here, by its number.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_TRACED_SIZES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_TRACED_SIZES_H_

#include <memory>
#include <vector>

#include "backends/graph/dim.h"
#include "frame_eval/ref.h"
#include "symbolic/tracing/numbers.h"

namespace framefuse::tracing {

class Recorder;
class SizeListener;
struct InputSizes;

// Where a symbolic size comes from: an input's size or stride in a dimension, an integer of the program's, or the graph
// itself.
inline constexpr int kIsNumberSymbol = -1, kIsUnbackedSymbol = -2;
struct SizeSymbol {
  int input_index = kIsNumberSymbol;
  int dim = 0;  // of integers: their number
  bool of_stride = false;
};
// An input's stride that follows from symbolic sizes.
struct SizedStride {
  int input_index = -1;
  int dim = 0;
  ir::Dim stride;
};

class TracedSizes {
 public:
  explicit TracedSizes(const std::unique_ptr<Recorder>& recorder) : recorder_(recorder), numbers_(recorder) {}
  TracedSizes(const TracedSizes&) = delete;
  TracedSizes& operator=(const TracedSizes&) = delete;

  Numbers& numbers() { return numbers_; }  // those that are Python integers
  // The symbolic integer that stands for one of the program's, which is a Python int between ir::kNumbers.
  Ref MakeNumber(BorrowedRef original);
  const std::vector<SizeSymbol>& symbols() const { return symbols_; }  // by number of the graph's symbol
  const std::vector<SizedStride>& strides() const { return strides_; }
  const std::vector<ir::Dim>& facts() const;  // conditions that later sizes must meet
  const ir::ExprTable& expressions() const;
  bool any() const;
  bool Fit() const;                                 // Sizes::Fit
  const std::vector<int>& pinned_unbacked() const;  // Sizes::pinned_unbacked
  bool TakesUnbacked() const;                       // ValueReader::TakesUnbacked, where a graph may define symbols
  // Symbolic numbers that the graph computes: a list of them, of a tensor without dimensions the one. Null: it cannot.
  Ref UnbackedNumbersOf(BorrowedRef fake);
  // Each call is checked for this truth of a tensor of one element, before the next operator that may fail. False: it
  // cannot be.
  [[nodiscard]] bool DeferTruth(BorrowedRef fake, bool truth);
  void SetListener(SizeListener* listener);  // null: none; must outlive the tracing

  // Rows of symbols that were made: an input's own, and one that the graph defines.
  void AddOfInput(int input_index, const InputSizes& own);
  void AddUnbacked() { symbols_.push_back({kIsUnbackedSymbol, 0}); }

 private:
  const std::unique_ptr<Recorder>& recorder_;
  std::vector<SizeSymbol> symbols_;
  std::vector<SizedStride> strides_;
  Numbers numbers_;
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_TRACED_SIZES_H_
