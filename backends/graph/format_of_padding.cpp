#include "backends/graph/format_of_padding.h"

#include <cstddef>

namespace framefuse::ir {

bool PadsInFormat(OpId op) {
  const auto& arguments = op->arguments();
  const std::size_t count = arguments.size();
  if (count < 2 || count > 3 || arguments[count - 2].name != "self" || arguments[count - 1].name != "padding") {
    return false;
  }
  return count == 2 || arguments[0].name == "grad_output";
}

}  // namespace framefuse::ir
