#include "symbolic/executables/random_state.h"

#include <ATen/Context.h>

#include <algorithm>
#include <mutex>

namespace framefuse {

std::vector<c10::Device> DevicesOfRandomNodes(const ir::Graph& graph) {
  std::vector<c10::Device> devices;
  const auto add = [&](ir::ValueId v) {
    if (v == ir::kNoValue) return;
    const c10::Device device = graph.value(v).device;
    if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
  };
  for (const ir::Node& n : graph.nodes) {
    if (!n.op->is_random() || n.phase == ir::Phase::kBackward) continue;
    for (const ir::ValueId v : n.outputs) add(v);
    ir::ForEachUse(n, add);
  }
  return devices;
}

RandomState::RandomState(absl::Span<const c10::Device> devices) {
  for (c10::Device device : devices) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    try {
      std::lock_guard lock(generator.mutex());
      states_.emplace_back(generator, generator.get_state());
    } catch (const c10::Error&) {
      // A device's generator has no state to tell while the user records a graph; nothing runs twice then either.
    }
  }
}

void RandomState::Restore() {
  for (auto& [generator, state] : states_) {
    std::lock_guard lock(generator.mutex());
    generator.set_state(state);
  }
}

}  // namespace framefuse
