// Makes executables whose runs are recorded and replayed (mode="reduce-overhead"): the work of a run is given to the
// device in one go, not kernel by kernel. See cuda_graph_run.h for what keeps that right, recordable.h for what is not
// recorded: that runs as it would without, for the reason that the log `fusion` gives.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_CUDA_GRAPH_EXECUTABLE_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_CUDA_GRAPH_EXECUTABLE_H_

#include "backends/runtime/executable.h"

namespace framefuse {

// `factory` makes what is recorded.
ExecutableFactory RecordingFactory(ExecutableFactory factory);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_CUDA_GRAPH_EXECUTABLE_H_
