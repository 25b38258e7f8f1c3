// Where in the user's program an operator is called: the innermost frame that is not torch's own code.

#include "backends/graph/graph.h"
#include "symbolic/capture/capture.h"
#include "symbolic/capture/code_text.h"

namespace framefuse {

// A frame's code is looked at when the frame is entered: Current runs without the GIL.
void Capture::NoteCode(PyCodeObject* code) {
  auto [it, inserted] = is_torch_code_.try_emplace(code, false);
  if (!inserted) return;
  it->second = IsTorchCode(code);
  noted_codes_.push_back(RefOf<PyCodeObject>::Create(code));
}

std::int32_t Capture::Current() {
  for (const Activation* act = top_; act != nullptr; act = act->parent) {
    PyCodeObject* code = frame_ops::Code(act->frame);
    const auto it = is_torch_code_.find(code);
    if (it != is_torch_code_.end() && it->second && act->parent != nullptr) continue;
    const Place place(code, act->instruction);
    const auto [id, added] = origin_ids_.try_emplace(place, static_cast<std::int32_t>(origins_.size()));
    if (added) origins_.push_back(place);
    return id->second;
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
