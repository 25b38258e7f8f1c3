// IsStreamRecorded: whether what the calling thread tells its device just now is recorded instead of run (a CUDA graph,
// mostly the user's). Nothing is compiled then (soundness rule 21): the constants that a compilation computes would be
// recorded, too, and have no values before somebody replays them. The probe is registered by the Python package.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_RECORDING_PROBE_H_
#define FRAMEFUSE_BACKENDS_GRAPH_RECORDING_PROBE_H_

#include <functional>

namespace framefuse {

bool IsStreamRecorded();
// Asked by any thread. Empty: nothing is ever recorded.
void SetRecordingProbe(std::function<bool()> probe);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_GRAPH_RECORDING_PROBE_H_
