// Stopwatch: how long the phases of compiling a plan take, for explain(). Invariant: a lap begins where the last one
// ended.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_STOPWATCH_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_STOPWATCH_H_

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "backends/graph/backend.h"

namespace framefuse {

class Stopwatch {
 public:
  explicit Stopwatch(std::vector<PhaseTime>* times) : times_(times) {}
  void Lap(std::string name) {
    auto now = Clock::now();
    times_->push_back({std::move(name), std::chrono::duration<double, std::milli>(now - last_).count()});
    last_ = now;
  }
  void Skip() { last_ = Clock::now(); }  // what was timed in another way

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<PhaseTime>* times_;
  Clock::time_point last_ = Clock::now();
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_STOPWATCH_H_
