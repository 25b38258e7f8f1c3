#include "symbolic/capture/journals/frame_stack.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "symbolic/capture/call_rules.h"
#include "symbolic/capture/code_text.h"

namespace framefuse {

void FrameStack::Push(Activation* act) {
  origins_.NoteCode(frame_ops::Code(act->frame));
  all_.push_back(act);
}

void FrameStack::PushRoot(Activation* act) {
  Push(act);
  has_root_ = true;
}

void FrameStack::Pop() {
  all_.pop_back();
  has_root_ = has_root_ && !all_.empty();
}

void FrameStack::DropSlots(frame_ops::Frame* frame) {
  PyObject** slots = frame_ops::Slots(frame);
  const int live = frame_ops::SlotCount(frame_ops::Code(frame)) + frame_ops::StackDepth(frame);
  for (int i = 0; i < live; ++i) Py_CLEAR(slots[i]);
}

bool FrameStack::IsChain() const {
  return std::none_of(all_.begin(), all_.end(),
                      [](const Activation* f) { return f->completion == Completion::kCallback; });
}

bool FrameStack::InSkippedCode() const { return top() != nullptr && IsSkippedCode(frame_ops::Code(top()->frame)); }

// An instruction asks several times.
const UserLocation& FrameStack::Here() {
  static const auto* nowhere = new UserLocation();
  if (top() == nullptr) return *nowhere;
  const std::pair<PyCodeObject*, int> place(frame_ops::Code(top()->frame), top()->instruction);
  if (here_.code && place == here_place_) return here_;
  here_place_ = place;
  here_ = UserLocation{RefOf<PyCodeObject>::Create(place.first), LineOf(place.first, place.second)};
  return here_;
}

CapturePosition FrameStack::PositionOf(const Activation& act, std::uint64_t executed) const {
  return CapturePosition{executed, RefOf<PyCodeObject>::Create(frame_ops::Code(act.frame)), act.instruction};
}

std::vector<std::string> FrameStack::SlotNames() const {
  PyCodeObject* code = frame_ops::Code(real_frame_);
  std::vector<std::string> names;
  const int count = frame_ops::SlotCount(code);
  for (int i = 0; i < count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, i);
    const char* text = PyUnicode_AsUTF8(name);
    names.emplace_back(text != nullptr ? text : "?");
  }
  for (int i = 0; i < code->co_stacksize; ++i) names.push_back(absl::StrCat("stack", i));
  return names;
}

}  // namespace framefuse
