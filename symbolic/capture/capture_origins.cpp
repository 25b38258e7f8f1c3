// Where in the user's program an operator is called: the innermost frame that is not torch's own code.

#include "backends/graph/graph.h"
#include "symbolic/capture/capture.h"
#include "symbolic/capture/code_text.h"

namespace framefuse {

std::int32_t Capture::Current() {
  for (Activation* act = top_; act != nullptr; act = act->parent) {
    PyCodeObject* code = frame_ops::Code(act->frame);
    auto [it, inserted] = is_torch_code_.try_emplace(code, false);
    if (inserted) it->second = IsTorchCode(code);
    if (it->second && act->parent != nullptr) continue;
    if (!origins_.empty() && origins_.back().first.get() == code && origins_.back().second == act->instruction) break;
    origins_.emplace_back(RefOf<PyCodeObject>::Create(code), act->instruction);
    break;
  }
  return static_cast<std::int32_t>(origins_.size()) - 1;
}

ir::Origin Capture::Resolve(std::int32_t id) {
  ir::Origin origin;
  if (id < 0 || static_cast<std::size_t>(id) >= origins_.size()) return origin;
  const auto& [code, instruction] = origins_[static_cast<std::size_t>(id)];
  origin.file = FileNameOf(code);
  origin.line = LineOf(code, instruction);
  origin.function = NameOf(code);
  origin.source = SourceLine(code, origin.line);
  return origin;
}

}  // namespace framefuse
