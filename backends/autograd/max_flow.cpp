#include "backends/autograd/max_flow.h"
#include "common/index.h"

#include <algorithm>

namespace framefuse {

MaxFlow::Vertex MaxFlow::AddVertex() {
  outgoing_.emplace_back();
  return static_cast<Vertex>(outgoing_.size() - 1);
}

void MaxFlow::AddEdge(Vertex from, Vertex to, std::int64_t capacity) {
  outgoing_[At(from)].push_back(static_cast<std::int32_t>(edges_.size()));
  edges_.push_back({to, capacity});
  outgoing_[At(to)].push_back(static_cast<std::int32_t>(edges_.size()));
  edges_.push_back({from, 0});
}

bool MaxFlow::Layer(Vertex source, Vertex sink) {
  level_.assign(outgoing_.size(), -1);
  level_[At(source)] = 0;
  std::vector<Vertex> queue = {source};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    auto v = static_cast<std::size_t>(queue[i]);
    for (std::int32_t e : outgoing_[v]) {
      const Edge& edge = edges_[At(e)];
      std::int32_t& level = level_[At(edge.to)];
      if (edge.residual == 0 || level >= 0) continue;
      level = level_[v] + 1;
      queue.push_back(edge.to);
    }
  }
  return level_[At(sink)] >= 0;
}

// One augmenting path in the layered graph, without recursion: chains are as deep as the model.
std::int64_t MaxFlow::Augment(Vertex source, Vertex sink) {
  std::vector<std::int32_t> path;
  Vertex at = source;
  while (at != sink) {
    auto v = static_cast<std::size_t>(at);
    bool advanced = false;
    for (; next_[v] < outgoing_[v].size(); ++next_[v]) {
      std::int32_t e = outgoing_[v][next_[v]];
      const Edge& edge = edges_[At(e)];
      if (edge.residual == 0 || level_[At(edge.to)] != level_[v] + 1) continue;
      path.push_back(e);
      at = edge.to;
      advanced = true;
      break;
    }
    if (advanced) continue;
    if (at == source) return 0;
    level_[v] = -1;  // a dead end in this layering
    at = edges_[At(path.back() ^ 1)].to;
    path.pop_back();
  }
  std::int64_t flow = kInfinite;
  for (std::int32_t e : path) flow = std::min(flow, edges_[At(e)].residual);
  for (std::int32_t e : path) {
    edges_[At(e)].residual -= flow;
    edges_[At(e ^ 1)].residual += flow;
  }
  return flow;
}

std::int64_t MaxFlow::Solve(Vertex source, Vertex sink) {
  std::int64_t total = 0;
  while (Layer(source, sink)) {
    next_.assign(outgoing_.size(), 0);
    while (std::int64_t flow = Augment(source, sink)) {
      total += flow;
      if (total >= kInfinite) return total;
    }
  }
  return total;
}

std::vector<bool> MaxFlow::SinkSide(Vertex sink) const {
  std::vector<bool> side(outgoing_.size(), false);
  side[At(sink)] = true;
  std::vector<Vertex> queue = {sink};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (std::int32_t e : outgoing_[At(queue[i])]) {
      auto from = static_cast<std::size_t>(edges_[At(e)].to);
      if (edges_[At(e ^ 1)].residual == 0 || side[from]) continue;
      side[from] = true;
      queue.push_back(static_cast<Vertex>(from));
    }
  }
  return side;
}

}  // namespace framefuse
