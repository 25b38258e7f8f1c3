// Runs of instance blocks in the quick list of a guard program: a model's modules, one after the other, in one loop.
// Between two blocks of a run no value is read, so none can be read through what a later block finds changed.
#include <utility>
#include <vector>

#include "guards/program_builder.h"

namespace framefuse {

void BatchInstances(ProgramImage* image) {
  std::vector<GuardStep> quick;
  for (const GuardStep& step : image->quick) {
    const auto* type = step.op == StepOp::kInstanceBlock ? static_cast<const PyTypeObject*>(step.operand) : nullptr;
    if (type == nullptr || (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) == 0) {
      quick.push_back(step);
      continue;
    }
    const auto next = static_cast<std::int32_t>(image->instances.size());
    if (quick.empty() || quick.back().op != StepOp::kInstances) {
      GuardStep run;
      run.op = StepOp::kInstances;
      run.index = static_cast<std::int32_t>(image->runs.size());
      quick.push_back(run);
      image->runs.push_back({next, next});
    }
    image->instances.push_back({step.source, step.index, type});
    image->runs.back().end = next + 1;
  }
  image->quick = std::move(quick);
  image->instances.resize(image->instances.size() + kLookAhead);
}

}  // namespace framefuse
