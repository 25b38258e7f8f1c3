// fx_difference: whether a graph that was recorded of an FX module's run is the one that the module was made of.
#ifndef FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_DIFFERENCE_H_
#define FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_DIFFERENCE_H_

#include <optional>
#include <string>

#include "backends/graph/graph.h"

namespace framefuse {

struct Difference {
  int node = 0;  // of the recorded graph
  bool no_room = false;
  std::string text;
};

// `without_grad`: the module ran without histories, and the recording with them.
std::optional<Difference> Compare(const ir::Graph& recorded, const ir::Graph& computed, bool without_grad);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_DIFFERENCE_H_
