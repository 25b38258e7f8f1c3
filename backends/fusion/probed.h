// Steps and executables that the accuracy probe is shown (backends/runtime/accuracy_probe.h); they do what they hold.
#ifndef FRAMEFUSE_BACKENDS_FUSION_PROBED_H_
#define FRAMEFUSE_BACKENDS_FUSION_PROBED_H_

#include <memory>
#include <vector>

#include "backends/fusion/step.h"
#include "backends/runtime/executable.h"

namespace framefuse::fusion {

// Wraps the kernels' steps; `graph` is what they compute.
void ProbeSteps(const ir::Graph& graph, std::vector<std::unique_ptr<Step>>* steps);

// Wraps what `make` makes of the graph; tells the probe if it makes nothing.
absl::StatusOr<std::unique_ptr<Executable>> MakeProbed(ir::Graph graph, const BackendOptions& options,
                                                       const ExecutableFactory& make);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_PROBED_H_
