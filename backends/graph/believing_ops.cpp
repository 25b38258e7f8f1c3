#include "backends/graph/believing_ops.h"

#include <algorithm>
#include <array>

namespace framefuse::ir {
namespace {

// Of backward passes, and those that stand for a library's function.
constexpr std::array<std::string_view, 5> kParts = {"backward", "mkldnn", "cudnn", "miopen", "thnn"};
// Rows to be swapped, as a factorisation numbered them.
constexpr std::array<std::string_view, 3> kArguments = {"pivots", "LU_pivots", "ipiv"};

}  // namespace

bool BelievesItsArguments(OpId op) {
  const auto is_part = [&](std::string_view part) { return op->name().find(part) != std::string::npos; };
  const auto is_argument = [&](std::string_view name) { return op->FindArgument(name) >= 0; };
  return std::any_of(kParts.begin(), kParts.end(), is_part) ||
         std::any_of(kArguments.begin(), kArguments.end(), is_argument);
}

}  // namespace framefuse::ir
