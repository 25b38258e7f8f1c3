#include "symbolic/executables/random_state.h"

#include <ATen/Context.h>

#include <algorithm>
#include <mutex>

namespace framefuse {

DrawnFrom GeneratorsOf(const ir::Graph& graph) {
  DrawnFrom from;
  const auto add = [&](ir::ValueId v) {
    if (v == ir::kNoValue) return;
    const c10::Device device = graph.value(v).device;
    if (std::find(from.devices.begin(), from.devices.end(), device) == from.devices.end()) {
      from.devices.push_back(device);
    }
  };
  for (const ir::Node& n : graph.nodes) {
    if (!n.op->is_random() || n.phase == ir::Phase::kBackward) continue;
    for (const ir::ValueId v : n.outputs) add(v);
    ir::ForEachUse(n, add);
    for (const ir::Arg& arg : n.args) {
      if (arg.kind != ir::Arg::Kind::kConstant || !arg.constant.isGenerator()) continue;
      const at::Generator given = arg.constant.toGenerator();
      if (std::find(from.given.begin(), from.given.end(), given) == from.given.end()) from.given.push_back(given);
    }
  }
  return from;
}

RandomState::RandomState(const DrawnFrom& from) {
  for (c10::Device device : from.devices) Note(at::globalContext().defaultGenerator(device));
  for (const at::Generator& given : from.given) Note(given);
}

void RandomState::Note(at::Generator generator) {
  try {
    std::lock_guard lock(generator.mutex());
    states_.emplace_back(generator, generator.get_state());
  } catch (const c10::Error&) {
    // A device's generator has no state to tell while the user records a graph; nothing runs twice then either.
  }
}

void RandomState::Restore() {
  for (auto& [generator, state] : states_) {
    std::lock_guard lock(generator.mutex());
    generator.set_state(state);
  }
}

}  // namespace framefuse
