// value_reads: numbers that a program reads out of tensors which follow from inputs of whole numbers or truth values:
// masks, ids, lengths. Such data steer a program as Python's own numbers do, so that the recording may go on with the
// value that is there, if the next call makes sure that it has the same. What floating-point data decide is a break,
// but for truths: of numbers that are kept on the CPU, and whether all or any of the data pass a short test.
// Invariant: computing a value anew runs no Python, writes nothing and has nothing recorded.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_VALUE_READS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_VALUE_READS_H_

#include <Python.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "backends/graph/dim.h"

namespace at {
class Tensor;
}

namespace framefuse::tracing {

// One value that was read, and how it is computed anew.
class ValueRead {
 public:
  virtual ~ValueRead() = default;
  // What it follows from, as MakeInput was given it: the tensors that the next three functions are asked about.
  [[nodiscard]] virtual const std::vector<int>& inputs() const = 0;
  // The graph's symbols that it follows from, by number: their values in a call, as bits, and their names.
  [[nodiscard]] virtual const std::vector<ir::SymbolIndex>& symbols() const = 0;
  [[nodiscard]] virtual bool IsSameFor(absl::Span<PyObject* const> tensors,
                                       absl::Span<const std::int64_t> symbols) const noexcept = 0;
  [[nodiscard]] virtual std::string Expression(
      absl::Span<const std::string> names,
      absl::Span<const std::string> symbol_names) const = 0;  // `torch.all(x) == True`
  [[nodiscard]] virtual std::string Found(absl::Span<PyObject* const> tensors,
                                          absl::Span<const std::int64_t> symbols) const = 0;  // what is there now
};

// Who answers for it that a later call has the same values.
class ValueReader {
 public:
  virtual ~ValueReader() = default;
  // Whether the recording may rely on a value that is read now; `digest` differs for different values.
  virtual bool MayRelyOn(std::uint64_t digest) = 0;
  virtual void Relied(std::shared_ptr<const ValueRead> read) = 0;
  // Whether what follows from values that are read now may be a symbol that the graph defines.
  virtual bool TakesUnbacked() { return false; }
  // Whether the graph can be left where what the recording relied on about it does not hold.
  virtual bool ChecksUnbacked() { return false; }
  // It is one: the next of them in the order of the graph's symbols.
  virtual void AddedUnbacked(int /*symbol*/) {}
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_VALUE_READS_H_
