// FrameStack: the frames of an attempt that are being evaluated, the root first, and where the program stands in them.
// The tracer asks it where an operator is called, guards where a fact was read.
// Invariant: an activation is here while its frame is linked in the interpreter. Activations are borrowed: they live on
// the C stack of whoever pushed them.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_FRAME_STACK_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_FRAME_STACK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "guards/guard.h"
#include "symbolic/evaluator/activation.h"
#include "symbolic/journals/capture_position.h"
#include "symbolic/journals/origin_table.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

class FrameStack final : public tracing::OriginProvider {
 public:
  // `real_frame`: the one that the attempt evaluates a copy of.
  FrameStack(frame_ops::Frame* real_frame, bool keeps_callers) : real_frame_(real_frame), origins_(keeps_callers) {}

  void Push(Activation* act);
  void PushRoot(Activation* act);
  void Pop();
  // Of a frame that was unwound: it keeps nothing alive, also where a traceback keeps the frame.
  static void DropSlots(frame_ops::Frame* frame);

  const std::vector<Activation*>& all() const { return all_; }
  Activation* top() const { return all_.empty() ? nullptr : all_.back(); }
  // The root is being evaluated: not before the attempt, and not in a backward function after it.
  bool has_root() const { return has_root_; }
  frame_ops::Frame* real_frame() const { return real_frame_; }
  // No frame was entered from C code: all can be resumed.
  bool IsChain() const;
  // The attempt began in an except block, its own or a caller's.
  bool handles_from_outside() const { return handles_from_outside_; }
  void set_handles_from_outside(bool handles) { handles_from_outside_ = handles; }
  bool InSkippedCode() const;  // the innermost frame is a library's

  const UserLocation& Here();
  CapturePosition PositionOf(const Activation& act, std::uint64_t executed) const;
  std::vector<std::string> SlotNames() const;  // of the root's code

  std::int32_t Current() override { return origins_.At(top()); }
  ir::Origin Resolve(std::int32_t id) override { return origins_.Resolve(id); }
  const OriginTable& origins() const { return origins_; }

 private:
  frame_ops::Frame* real_frame_;
  std::vector<Activation*> all_;
  std::vector<RefOf<PyCodeObject>> forwards_;  // by frame: the forward() that it leads to; null: it is not torch's
  bool has_root_ = false;
  bool handles_from_outside_ = false;
  OriginTable origins_;
  // The calls that the frames but the innermost one stand at, as far as they were asked for.
  struct Call {
    PyCodeObject* code;
    int instruction;
    std::shared_ptr<const CallerLocation> location;
  };
  const std::shared_ptr<const CallerLocation>& CallOfTop();

  std::vector<Call> calls_;
  std::pair<PyCodeObject*, int> here_place_;  // code and instruction
  UserLocation here_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_FRAME_STACK_H_
