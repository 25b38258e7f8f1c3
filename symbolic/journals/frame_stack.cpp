#include "symbolic/journals/frame_stack.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "symbolic/frames/installed_code.h"
#include "symbolic/frames/user_stack.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {
namespace {

// Asked with most guards: the last answers are kept, by file.
bool IsUsers(PyCodeObject* code) {
  struct Known {
    Ref file;
    bool is_user = false;
  };
  constexpr std::size_t kKnown = 64;
  static auto* known = new std::array<Known, kKnown>();
  Known& at = (*known)[reinterpret_cast<std::uintptr_t>(code->co_filename) / 16 % kKnown];
  if (at.file.get() != code->co_filename) {
    at.is_user = IsUsersCode(code) && !IsOwnCode(code);
    at.file = Ref::Create(code->co_filename);
  }
  return at.is_user;
}

// Whether torch's call of a module defines it for itself: where hooks are called.
bool IsOfModuleCall(PyCodeObject* code) {
  return IsTorchCode(code) && absl::StartsWith(QualifiedNameOf(code), "Module._call_impl.<locals>.");
}

}  // namespace

void FrameStack::Push(Activation* act) {
  PyCodeObject* const code = frame_ops::Code(act->frame);
  origins_.NoteCode(code);
  all_.push_back(act);
  // Asked now: when the attempt is being closed, the frame's slots are empty.
  RefOf<PyCodeObject> forward;
  if (CallsModule(act->frame)) forward = RefOf<PyCodeObject>::Create(ShownCode(frame_ops::View(act->frame)));
  if (!forwards_.empty() && forwards_.back() && IsOfModuleCall(code)) forward = forwards_.back();
  forwards_.push_back(std::move(forward));
}

void FrameStack::PushRoot(Activation* act) {
  Push(act);
  has_root_ = true;
}

void FrameStack::Pop() {
  all_.pop_back();
  forwards_.pop_back();
  if (calls_.size() > all_.size()) calls_.resize(all_.size());
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

const std::shared_ptr<const CallerLocation>& FrameStack::CallOfTop() {
  static const auto* none = new std::shared_ptr<const CallerLocation>();
  const std::size_t count = all_.size() - 1;
  std::size_t known = 0;
  const auto is_known = [&](const Call& call) {
    return call.code == frame_ops::Code(all_[known]->frame) && call.instruction == all_[known]->instruction;
  };
  while (known < std::min(count, calls_.size()) && is_known(calls_[known])) ++known;
  calls_.resize(known);
  for (std::size_t i = known; i < count; ++i) {
    PyCodeObject* const code = frame_ops::Code(all_[i]->frame);
    const int instruction = all_[i]->instruction;
    CallerLocation location{Ref::Create(code->co_filename), LineOf(code, instruction), IsUsers(code),
                            i > 0 ? calls_.back().location : nullptr};
    calls_.push_back({code, instruction, std::make_shared<const CallerLocation>(std::move(location))});
  }
  return count > 0 ? calls_.back().location : *none;
}

// An instruction asks several times.
const UserLocation& FrameStack::Here() {
  static const auto* nowhere = new UserLocation();
  if (top() == nullptr) return *nowhere;
  const std::pair<PyCodeObject*, int> place(frame_ops::Code(top()->frame), top()->instruction);
  const std::shared_ptr<const CallerLocation>& call = CallOfTop();
  const bool same_frame = here_.code && place.first == here_place_.first && here_.caller == call;
  if (same_frame && (place == here_place_ || here_.code.get() != place.first)) return here_;
  // Nobody wrote torch's call of a module: all of it stands at the head of the forward() that it leads to.
  if (const RefOf<PyCodeObject>& forward = forwards_.back(); forward) {
    here_place_ = place;
    here_ = UserLocation{forward, LineOf(forward.get(), -1), IsUsers(forward.get()), call};
    return here_;
  }
  const bool is_user = here_.code.get() == place.first ? here_.is_user : IsUsers(place.first);
  here_place_ = place;
  here_ = UserLocation{RefOf<PyCodeObject>::Create(place.first), LineOf(place.first, place.second), is_user, call};
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
