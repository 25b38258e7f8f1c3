// Replacements: value → value, applied to the uses of a graph as a pass walks it.
#ifndef FRAMEFUSE_BACKENDS_PASSES_REWRITE_H_
#define FRAMEFUSE_BACKENDS_PASSES_REWRITE_H_

#include <vector>

#include "backends/graph/graph.h"

namespace framefuse {

class Replacements {
 public:
  explicit Replacements(std::size_t values) : to_(values, ir::kNoValue) {}
  void Replace(ir::ValueId from, ir::ValueId to) {
    to_[static_cast<std::size_t>(from)] = Resolve(to);
    any_ = true;
  }
  ir::ValueId Resolve(ir::ValueId v) const {
    if (v == ir::kNoValue || static_cast<std::size_t>(v) >= to_.size()) return v;
    ir::ValueId to = to_[static_cast<std::size_t>(v)];
    return to == ir::kNoValue ? v : to;
  }
  void Apply(ir::Node& n) const {
    for (ir::Arg& a : n.args) {
      a.value = Resolve(a.value);
      for (ir::ValueId& v : a.values) v = Resolve(v);
    }
  }
  void ApplyToOutputs(ir::Graph& g) const {
    for (ir::Output& o : g.outputs) o.value = Resolve(o.value);
  }
  bool any() const { return any_; }

 private:
  std::vector<ir::ValueId> to_;
  bool any_ = false;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_PASSES_REWRITE_H_
