// EntrySizes: the symbols of an entry: where a call's values of them stand, and the expressions made of them.
// Invariant: immutable; its sources are guarded, so that they are tensors with these dimensions.
#ifndef FRAMEFUSE_SYMBOLIC_ENTRY_ENTRY_SIZES_H_
#define FRAMEFUSE_SYMBOLIC_ENTRY_ENTRY_SIZES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "backends/graph/dim.h"
#include "guards/leaf/value.h"

namespace framefuse {

inline constexpr int kIsNumber = -1, kIsFloat = -2, kIsUnbacked = -3;
// What a symbol may stand for: an int between the two of ir::kNumbers.
std::optional<std::int64_t> IntegerOf(PyObject* object);

struct EntrySizes {
  struct Symbol {
    SourceId source = kNoSource;
    int dim = 0;  // kIsNumber, kIsFloat: a number itself; kIsUnbacked: the graph defines it, and `source` is none
    bool of_stride = false;
  };
  ir::ExprTable expressions;
  std::vector<Symbol> symbols;

  // What a symbol is where `object` stands at its source, as bits; nothing: that is no such number.
  [[nodiscard]] static std::optional<std::int64_t> ValueOf(const Symbol& symbol, PyObject* object);
  // How it reads in Python, where `name` is its source.
  [[nodiscard]] static std::string NameOf(const Symbol& symbol, const std::string& name);
  // Values of the symbols, of unbacked ones their hints; objects by SourceId.
  std::vector<std::int64_t> Read(PyObject* const* objects) const;
};

// Values of an entry's symbols in one call.
struct SizeValues {
  const EntrySizes* sizes = nullptr;
  absl::Span<const std::int64_t> symbols;
  std::int64_t Of(ir::ExprId expression) const {
    return sizes->expressions.Evaluate(ir::Dim::OfExpr(expression), symbols);
  }
  Ref ObjectOf(ir::ExprId expression) const;  // an int or a float
};

// Guards of an entry on sizes and strides that its tensors' own guards leave open.
class SizeFacts final : public ValueFact {
 public:
  struct Symbol {
    std::size_t tensor = 0;  // by number of the guard's source
    int dim = 0;             // kIsNumber, kIsFloat: a number itself; kIsUnbacked: in no condition
    bool of_stride = false;
  };
  struct Stride {
    std::size_t tensor = 0;
    int dim = 0;
    ir::Dim stride;
  };
  struct Condition {
    ir::Dim condition;
    std::string where;  // "model.py:12", or empty
  };
  SizeFacts(ir::ExprTable expressions, std::vector<Symbol> symbols, std::vector<Stride> strides,
            std::vector<Condition> conditions)
      : expressions_(std::move(expressions)),
        symbols_(std::move(symbols)),
        strides_(std::move(strides)),
        conditions_(std::move(conditions)) {}

  [[nodiscard]] bool Holds(absl::Span<PyObject* const> tensors) const noexcept override;
  [[nodiscard]] std::string Expression(absl::Span<const std::string> names) const override;
  [[nodiscard]] std::string Failure(absl::Span<const std::string> names,
                                    absl::Span<PyObject* const> tensors) const override;

 private:
  // Floats by their bits. Nothing: a number is none, or does not fit.
  std::optional<std::vector<std::int64_t>> Values(absl::Span<PyObject* const> tensors) const;
  // Expressions with symbols under the names that a user knows.
  ir::ExprTable Named(absl::Span<const std::string> names) const;

  ir::ExprTable expressions_;
  std::vector<Symbol> symbols_;
  std::vector<Stride> strides_;
  std::vector<Condition> conditions_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ENTRY_ENTRY_SIZES_H_
