// Growing concatenations: cat([a, b]), then cat([a, b, c]), and so on, as in a block of a DenseNet. Each piece is
// copied once, to where the longest concatenation has it; the shorter ones are its beginnings. Invariant: the
// concatenations of a chain run in its order. What reads a beginning takes any strides.
#ifndef FRAMEFUSE_BACKENDS_FUSION_GROWING_CATS_H_
#define FRAMEFUSE_BACKENDS_FUSION_GROWING_CATS_H_

#include <map>
#include <memory>

#include "backends/fusion/group.h"
#include "backends/fusion/step.h"

namespace framefuse::fusion {

// A concatenation that is a beginning of `whole`, or is `whole`; its first `there` pieces are there already.
struct Growth {
  ir::ValueId whole = ir::kNoValue;
  std::size_t there = 0;
};

// Gives the beginnings their strides.
std::map<ir::NodeIndex, Growth> FindGrowingCats(ir::Graph* graph, const Schedule& schedule);

std::unique_ptr<Step> MakeGrowStep(const ir::Graph& graph, const ir::Node& node, const Growth& growth);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_GROWING_CATS_H_
