// Which graphs can be recorded: one device does all their work, without the host looking at a value on the way.
// Invariant: what passes may still fail to record (an operator may wait for the device inside); what does not pass
// would fail or give a wrong answer.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_RECORDABLE_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_RECORDABLE_H_

#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/graph/graph.h"

namespace framefuse {

// The device, or why not.
absl::StatusOr<c10::Device> DeviceToRecordOn(const ir::Graph& graph);

// Process groups whose collectives are in the graph. An error: one is not known before it runs.
absl::StatusOr<std::vector<std::string>> GroupsOf(const ir::Graph& graph);

// By value: nobody reads it, though it is passed on. Attention's seeds are where nothing is dropped: tensors of the
// host, whatever their recorded device.
std::vector<bool> UnreadSeeds(const ir::Graph& graph);

// By value: it is read as a seed of attention's dropout alone. A recorded operator gives and reads seeds on the device,
// another one on the host.
std::vector<bool> WanderingSeeds(const ir::Graph& graph);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_RECORDABLE_H_
