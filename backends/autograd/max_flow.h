// MaxFlow: Dinic's algorithm on integer capacities, for the partition's minimum cut.
// Invariant: after Solve, SinkSide says for each vertex whether it reaches the sink in the residual graph: of all
// minimum cuts the one with the fewest vertices on the sink's side.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_MAX_FLOW_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_MAX_FLOW_H_

#include <cstdint>
#include <vector>

namespace framefuse {

class MaxFlow {
 public:
  using Vertex = std::int32_t;
  static constexpr std::int64_t kInfinite = std::int64_t{1} << 60;

  Vertex AddVertex();
  void AddEdge(Vertex from, Vertex to, std::int64_t capacity);
  std::int64_t Solve(Vertex source, Vertex sink);
  std::vector<bool> SinkSide(Vertex sink) const;

 private:
  struct Edge {
    Vertex to;
    std::int64_t residual;
  };
  bool Layer(Vertex source, Vertex sink);
  std::int64_t Augment(Vertex source, Vertex sink);

  std::vector<Edge> edges_;  // edge i and i ^ 1 are each other's reverse
  std::vector<std::vector<std::int32_t>> outgoing_;
  std::vector<std::int32_t> level_;
  std::vector<std::size_t> next_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_MAX_FLOW_H_
