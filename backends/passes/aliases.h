// Aliases: which values of a graph may share memory, by the schemas' alias annotations.
// Invariant: values that may share memory have the same root; a root is never the result of a view.
#ifndef FRAMEFUSE_BACKENDS_PASSES_ALIASES_H_
#define FRAMEFUSE_BACKENDS_PASSES_ALIASES_H_

#include <vector>

#include "backends/graph/graph.h"

namespace framefuse {

class Aliases {
 public:
  explicit Aliases(const ir::Graph& graph);
  ir::ValueId RootOf(ir::ValueId v) const { return root_[static_cast<std::size_t>(v)]; }
  // The user may come to hold this value's memory: it is (part of) an output, gradients included.
  bool Escapes(ir::ValueId v) const { return escapes_[static_cast<std::size_t>(RootOf(v))]; }
  bool IsOutput(ir::ValueId v) const { return is_output_[static_cast<std::size_t>(v)]; }
  bool FromInput(ir::ValueId v) const { return is_input_[static_cast<std::size_t>(RootOf(v))]; }

 private:
  std::vector<ir::ValueId> root_;
  std::vector<bool> escapes_;    // by root
  std::vector<bool> is_output_;  // by value
  std::vector<bool> is_input_;   // by value
};

// The argument whose memory the results of `op` share, -1 if none. _unsafe_view counts: its schema does not say so.
int ViewedArgument(const ir::Op& op);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_PASSES_ALIASES_H_
