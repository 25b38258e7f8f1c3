#include "guards/slow_steps.h"

#include <utility>

namespace framefuse {

void SlowSteps::Finish(ProgramImage* image) const {
  std::vector<StepRange>& blocks = image->blocks;
  blocks.resize(static_cast<std::size_t>(blocks_));
  for (const SlowStep& s : steps_) ++blocks[static_cast<std::size_t>(s.block)].end;
  std::int32_t next = 0;
  for (StepRange& range : blocks) {
    const std::int32_t count = range.end;
    range = {next, next};
    next += count;
  }
  image->slow.resize(steps_.size());
  for (const SlowStep& s : steps_) {
    image->slow[static_cast<std::size_t>(blocks[static_cast<std::size_t>(s.block)].end++)] = s.step;
  }
}

}  // namespace framefuse
