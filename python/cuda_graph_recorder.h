// The recorder of CUDA graphs (backends/runtime/cuda_graph_recorder.h) through torch's Python interface.
// Invariant: takes the GIL for the question whether, for beginning, ending and replaying only, never for the work that
// is recorded.
#ifndef FRAMEFUSE_PYTHON_CUDA_GRAPH_RECORDER_H_
#define FRAMEFUSE_PYTHON_CUDA_GRAPH_RECORDER_H_

#include <functional>
#include <memory>

#include "backends/runtime/cuda_graph_recorder.h"
#include "frame_eval/ref.h"

namespace framefuse {

// `begin(device_index)` starts a recording and returns it; `carries(group_name, device_index)` says why collectives of
// that process group are not recorded, or None; see framefuse/_cuda_graphs.py.
std::unique_ptr<CudaGraphRecorder> MakeGraphRecorder(Ref begin, Ref carries);
// The GIL is held. Recordings with collectives: they are made anew when they are needed again.
void CloseRecordingsOfGroups();
// `probe()` says whether the calling thread's current stream is being recorded (backends/graph/recording_probe.h).
std::function<bool()> MakeRecordingProbe(Ref probe);

}  // namespace framefuse

#endif  // FRAMEFUSE_PYTHON_CUDA_GRAPH_RECORDER_H_
