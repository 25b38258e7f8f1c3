#include "symbolic/journals/break_controller.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "frame_eval/hook.h"
#include "symbolic/ambient/function_modes.h"
#include "symbolic/ambient/signal_pause.h"
#include "symbolic/frames/installed_code.h"
#include "symbolic/frames/library_frame.h"
#include "symbolic/frames/user_stack.h"
#include "symbolic/journals/frame_stack.h"
#include "symbolic/journals/made_classes.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/trace_text.h"
#include "symbolic/rules/call_rules.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

constexpr std::uint64_t kInstructionsToCheckpoint = 1 << 16;
// An attempt that gets longer breaks where it stands; a model of a thousand operators takes a tenth of this.
constexpr std::uint64_t kMaxInstructions = 1 << 20;
constexpr std::uint64_t kMaxIdleInstructions = 1 << 18;  // without a tensor operation
constexpr int kMaxNodes = 20'000;

}  // namespace

void BreakController::SetUnwindError() {
  PyErr_Clear();
  static PyObject* type = nullptr;
  if (type == nullptr) {  // near the end of the stack there is no room to make it: that error serves as well
    type = PyErr_NewExceptionWithDoc("framefuse.Unwinding", "A capture ended here. No code of a program sees it.",
                                     PyExc_BaseException, nullptr);
  }
  if (type != nullptr) PyErr_SetNone(type);
}

// ---------------------------------------------------------------- stops

void BreakController::BreakAt(std::int64_t executed) {
  schedule_.SetCheckpoint(kInstructionsToCheckpoint);
  schedule_.Want(executed >= 0 ? static_cast<std::uint64_t>(executed) : Control().stop_at);
}

void BreakController::StopAt(const CapturePosition& position) {
  stop_ = position;
  schedule_.Want(stop_->executed);
}

void BreakController::TrackRebuildable() {
  track_rebuildable_ = true;
  schedule_.Want(0);
}

// A loop without an end must neither fill the memory nor keep a signal from its handler.
bool BreakController::Checkpoint(Activation& act) {
  if (!schedule_.PassCheckpoint(kInstructionsToCheckpoint)) return true;
  act.started = control_.executed;  // not begun: its number is the next
  if (SignalPause::HasArrived()) return BreakFalse(GraphBreakKind::kInterrupted, "");
  const bool idle = control_.executed >= kMaxIdleInstructions && tracer_.NodeCount() == 0;
  const bool too_long = idle || control_.executed >= kMaxInstructions || tracer_.NodeCount() >= kMaxNodes;
  // A re-run stops before the place where the first run got too long.
  return stop_ || !too_long || BreakFalse(GraphBreakKind::kTooLong, "");
}

StopAction BreakController::OnStop(Activation& act) {
  const StopAction action = StopHere(act);
  if (schedule_.traces() && action == StopAction::kContinue) {
    FF_LOG(kTrace) << TraceText(act);
    schedule_.AskAtNext();
  }
  return action;
}

StopAction BreakController::StopHere(Activation& act) {
  if (!Checkpoint(act)) return StopAction::kUnwind;
  if (!schedule_.IsWanted()) return StopAction::kContinue;
  const bool in_chain = frames_.IsChain();
  if (track_rebuildable_ && !(stop_ && control_.executed >= stop_->executed)) {
    schedule_.WantNext();
    if (in_chain && frames_.all().size() == 1 && listener_ != nullptr && listener_->IsRebuildable(act)) {
      last_rebuildable_ = frames_.PositionOf(act, control_.executed);
    }
    return StopAction::kContinue;
  }
  if (!stop_) {
    if (!in_chain) {
      schedule_.WantNext();
      return StopAction::kContinue;
    }
    act.started = control_.executed;  // not begun: its number is the next
    return BreakFalse(GraphBreakKind::kForced, "") ? StopAction::kContinue : StopAction::kUnwind;
  }
  if (frame_ops::Code(act.frame) != stop_->code.get() || act.instruction != stop_->instruction || !in_chain) {
    stop_mismatch_ = true;
  } else {
    stopped_ = true;
    if (listener_ != nullptr) listener_->AtStop(act);
  }
  return static_cast<void>(Unwound()), StopAction::kUnwind;
}

void BreakController::EndRun() { left_modes_ = left_modes(); }

bool BreakController::left_modes() const { return left_modes_ || modes_.open() > 0; }

// ---------------------------------------------------------------- breaks

GraphBreakReason BreakController::ReasonHere(GraphBreakKind kind, std::string_view context) const {
  const HookScope native(HookMode::kOff);  // Python reads the lines, which is no code of the program's
  const std::vector<Activation*>& frames = frames_.all();
  std::size_t last = frames.size() - 1;
  const auto is_shown = [](const Activation* act) {
    return !IsOwnCode(frame_ops::Code(act->frame)) && !CallsModule(act->frame);
  };
  while (last > 0 && !is_shown(frames[last])) --last;
  GraphBreakReason reason;
  ModuleAround module(frames.front()->frame);
  for (std::size_t i = 0; i <= last; ++i) {
    frame_ops::Frame* frame = frames[i]->frame;
    module.Enter(frame);
    if (i < last && !is_shown(frames[i])) continue;
    CodePlace place = module.Around(PlaceOf(frame, frames[i]->instruction));
    if (i == last) {
      static_cast<CodePlace&>(reason) = std::move(place);
    } else {
      reason.callers.push_back(std::move(place));
    }
  }
  reason.kind = kind;
  reason.context = std::string(context);
  return reason;
}

void BreakController::NoteUnconfirmed(std::string_view context) {
  unconfirmed_error_ = ReasonHere(GraphBreakKind::kUnconfirmedError, context);
}

Value BreakController::NeedFrames() {
  if (!control_.unwinding) needs_frames_ = true;
  return Unwound();
}

Value BreakController::NeedStaticSizes() {
  if (!control_.unwinding) needs_static_sizes_ = true;
  return Unwound();
}

bool BreakController::IsLibrary(frame_ops::Frame* frame) const {
  PyCodeObject* code = frame_ops::Code(frame);
  return IsSkippedCode(code) || classes_.IsMadeCode(code) || IsOfLibraryWithoutTensors(frame);
}

Value BreakController::Break(GraphBreakKind kind, std::string_view context) {
  if (control_.unwinding) return Unwound();
  needs_frames_ = calls_without_frames_ > 0;
  left_modes_ = modes_.open() > 0;
  control_.Unwind();
  const std::vector<Activation*>& frames = frames_.all();
  BreakRecord record;
  // Frames entered from C cannot be resumed: the break is the outermost C call's (soundness rule 4).
  std::size_t last = 0;
  while (last + 1 < frames.size() && frames[last + 1]->completion != Completion::kCallback) ++last;
  // Library code runs natively from the user's call on, rather than in pieces.
  while (last > 0 && IsLibrary(frames[last]->frame)) --last;
  for (std::size_t i = last + 1; i-- > 0;) {
    if (i > 0 && IsLibrary(frames[i]->frame)) continue;
    const Activation& act = *frames[i];
    CapturePosition position = frames_.PositionOf(act, act.started);
    if (i == last) {
      record.position = position;
    } else {
      record.outer_positions.push_back(position);
    }
  }
  record.reason = ReasonHere(kind, context);
  record_ = std::move(record);
  return Unwound();
}

Value BreakController::Unwound() {
  control_.Unwind();
  SetUnwindError();
  return Value();
}

Control BreakController::BeginApart() {
  const Control kept = control_;
  control_.stop_at = std::numeric_limits<std::uint64_t>::max();
  return kept;
}

std::optional<GraphBreakReason> BreakController::EndApart(const Control& kept) {
  const bool broke = control_.unwinding;
  control_ = kept;
  if (!broke) return std::nullopt;
  GraphBreakReason reason = record_->reason;
  record_.reset();
  PyErr_Clear();
  return reason;
}

}  // namespace framefuse
