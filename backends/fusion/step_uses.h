// StepUses: what the trace tells of an executable at work (docs/trace.md): how often the kernels of each step ran on
// the CPU, how long that took, the bytes that they read and wrote, and how much memory was in use. Invariant: changes
// nothing of a run. Only executables made while the trace is on have one; others pay a test of a pointer. Thread-safe.
#ifndef FRAMEFUSE_BACKENDS_FUSION_STEP_USES_H_
#define FRAMEFUSE_BACKENDS_FUSION_STEP_USES_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "backends/fusion/step.h"
#include "common/compile_id.h"

namespace framefuse::fusion {

class StepUses {
 public:
  // Of the compilation at hand.
  StepUses(std::string graph, std::size_t steps) : id_(CurrentCompileId()), graph_(std::move(graph)), uses_(steps) {}

  // Runs `run`, which is one run of the step.
  absl::Status Measure(std::size_t index, const Step& step, const CallState& call,
                       absl::FunctionRef<absl::Status()> run);

 private:
  struct Use {
    std::int64_t runs = 0, bytes = 0;
    double seconds = 0;
  };
  void Tell(std::size_t index, const Step& step, const Use& use) const;

  CompileId id_;
  std::string graph_;
  std::mutex mutex_;
  std::vector<Use> uses_;
};

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_STEP_USES_H_
