#include "backends/graph/believing_ops.h"

#include <algorithm>
#include <array>

#include "backends/graph/operators.h"

namespace framefuse::ir {
namespace {

// Rows to be swapped, as a factorisation numbered them.
constexpr std::array<std::string_view, 3> kArguments = {"pivots", "LU_pivots", "ipiv"};

}  // namespace

bool BelievesItsArguments(OpId op) {
  const auto is_argument = [&](std::string_view name) { return op->FindArgument(name) >= 0; };
  return Has(op, OpFact::kBelieves) || std::any_of(kArguments.begin(), kArguments.end(), is_argument);
}

}  // namespace framefuse::ir
