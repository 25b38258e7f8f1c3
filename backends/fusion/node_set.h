// NodeSet: a set of a graph's nodes, in words of bits.
#ifndef FRAMEFUSE_BACKENDS_FUSION_NODE_SET_H_
#define FRAMEFUSE_BACKENDS_FUSION_NODE_SET_H_

#include <bit>
#include <cstdint>
#include <vector>

#include "backends/graph/graph.h"

namespace framefuse::fusion {

class NodeSet {
 public:
  explicit NodeSet(std::size_t nodes) : words_((nodes + 63) / 64, 0) {}
  void Add(ir::NodeIndex n) { words_[static_cast<std::size_t>(n) / 64] |= 1ull << (n % 64); }
  bool Has(ir::NodeIndex n) const { return words_[static_cast<std::size_t>(n) / 64] >> (n % 64) & 1; }
  void Join(const NodeSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  bool Meets(const NodeSet& other) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      if ((words_[i] & other.words_[i]) != 0) return true;
    }
    return false;
  }
  // What both have and `done` has not; `f` may add to this set and to `done`.
  template <typename F>
  void ForEachIn(const NodeSet& other, const NodeSet& done, F f) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const auto left = [&] { return words_[i] & other.words_[i] & ~done.words_[i]; };
      for (std::uint64_t both = left(); both != 0; both = both & (both - 1) & left()) {
        f(static_cast<ir::NodeIndex>(i * 64) + std::countr_zero(both));
      }
    }
  }

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_NODE_SET_H_
