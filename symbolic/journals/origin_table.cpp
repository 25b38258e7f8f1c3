#include "symbolic/journals/origin_table.h"

#include <algorithm>

#include "symbolic/messages/code_text.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {

void OriginTable::NoteCode(PyCodeObject* code) {
  auto [it, inserted] = is_torch_.try_emplace(code, false);
  if (!inserted) return;
  it->second = IsTorchCode(code);
  codes_.push_back(RefOf<PyCodeObject>::Create(code));
}

bool OriginTable::IsTorch(const Activation& act) const {
  const auto it = is_torch_.find(frame_ops::Code(act.frame));
  return it != is_torch_.end() && it->second && act.parent != nullptr;
}

std::int32_t OriginTable::Intern(const Activation* act) {
  while (act != nullptr && IsTorch(*act)) act = act->parent;
  if (act == nullptr) return -1;
  const std::int32_t caller = keeps_callers_ ? Intern(act->parent) : -1;
  const Place place(frame_ops::Code(act->frame), act->instruction, caller);
  const auto [id, added] = ids_.try_emplace(place, static_cast<std::int32_t>(places_.size()));
  if (added) places_.push_back(place);
  return id->second;
}

std::int32_t OriginTable::At(const Activation* top) {
  const std::int32_t id = Intern(top);
  return id >= 0 ? id : static_cast<std::int32_t>(places_.size()) - 1;
}

ir::Origin OriginTable::Resolve(std::int32_t id) const {
  ir::Origin origin;
  if (id < 0 || static_cast<std::size_t>(id) >= places_.size()) return origin;
  const auto& [code, instruction, caller] = places_[static_cast<std::size_t>(id)];
  origin.file = FileNameOf(code);
  origin.line = LineOf(code, instruction);
  origin.function = NameOf(code);
  origin.source = SourceLine(code, origin.line);
  return origin;
}

std::vector<ir::Origin> OriginTable::StackOf(std::int32_t id) const {
  std::vector<ir::Origin> stack;
  while (id >= 0 && static_cast<std::size_t>(id) < places_.size()) {
    stack.push_back(Resolve(id));
    id = std::get<2>(places_[static_cast<std::size_t>(id)]);
  }
  std::reverse(stack.begin(), stack.end());
  return stack;
}

}  // namespace framefuse
