// TangentUse: which tangents each value of a backward graph depends on, and which of its nodes read saved values.
// From it follows what eager would do when outputs of one graph are differentiated one after another: a second pass
// may run every node that the first left out, with what was saved for it, and no node twice.
// Invariant: a backward is linear in its tangents; what depends on undefined tangents alone is left out of it.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_TANGENT_USE_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_TANGENT_USE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "backends/graph/graph.h"

namespace framefuse {

// For each value which tangents it depends on; empty: none. tangents[t] is the value of tangent t.
std::vector<std::vector<bool>> TangentsOfValues(const ir::Graph& graph, const std::vector<ir::ValueId>& tangents);

bool EqualMetadata(const ir::Value& a, const ir::Value& b);

class TangentUse {
 public:
  // The inputs of `backward` are `saved` saved values, then the tangents.
  TangentUse(const ir::Graph& backward, std::size_t saved);
  // Of a graph with these tangents; it does not tell who reads saved values.
  TangentUse(const ir::Graph& joint, const std::vector<ir::ValueId>& tangents)
      : tangents_(TangentsOfValues(joint, tangents)) {}

  // Nodes that compute with tangents and read saved value s, also through nodes that do not.
  const std::vector<std::int32_t>& ReadersOf(std::size_t s) const { return readers_[s]; }
  bool ReadsSaved(std::size_t node) const { return reads_saved_[node]; }
  // Whether the node computes with one of these tangents (one character each, '1' defined).
  bool Runs(const ir::Node& node, const std::string& defined) const;
  // Takes sums with a part that is left out from the graph: what reads one reads the other term, or, if that has other
  // strides, a copy of it. A gradient is the other term with its own strides, as in eager.
  void DropUndefined(ir::Graph& backward, const std::string& defined) const;
  // Whether the value depends on tangents, and on undefined ones alone.
  bool IsLeftOut(ir::ValueId value, const std::string& defined) const;

 private:
  // Of a sum with a part that is left out: the argument that is the other term. -1: of any other node.
  int TermOf(const ir::Graph& backward, const ir::Node& node, const std::string& defined) const;

  std::vector<std::vector<bool>> tangents_;  // by value
  std::vector<std::vector<std::int32_t>> readers_;
  std::vector<bool> reads_saved_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_TANGENT_USE_H_
