// SlowSteps: the steps of all blocks while a program is built, in order of emission. Most blocks have few steps, so
// they get their ranges at the end, in one array.
#ifndef FRAMEFUSE_GUARDS_SLOW_STEPS_H_
#define FRAMEFUSE_GUARDS_SLOW_STEPS_H_

#include <cstdint>
#include <vector>

#include "guards/program.h"

namespace framefuse {

class SlowSteps {
 public:
  std::int32_t NewBlock() { return blocks_++; }
  void Add(std::int32_t block, const GuardStep& step) { steps_.push_back({block, step}); }
  // Fills `slow` and `blocks`.
  void Finish(ProgramImage* image) const;

 private:
  struct SlowStep {
    std::int32_t block;
    GuardStep step;
  };
  std::int32_t blocks_ = 0;
  std::vector<SlowStep> steps_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_SLOW_STEPS_H_
