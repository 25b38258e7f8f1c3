// BackwardPhase: whether the backward functions of torch.autograd.Function are being evaluated. They run before the
// program's backward pass begins, and so may read what forward left for them and what no program changes, and may write
// nothing that outlives them.
// Invariant: it is on only within a Scope, at the close of a graph.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_BACKWARD_PHASE_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_BACKWARD_PHASE_H_

#include "guards/source.h"

namespace framefuse {

class BreakController;
class FrameStack;

class BackwardPhase {
 public:
  BackwardPhase(const FrameStack& frames, BreakController& breaks) : frames_(frames), breaks_(breaks) {}
  bool running() const { return running_; }
  // False: broke.
  bool MayRead(SourceKind kind) const { return !running_ || MayReadNow(kind); }
  bool MayWrite() const { return !running_ || MayWriteNow(); }

  class Scope {
   public:
    explicit Scope(BackwardPhase& phase) : phase_(phase) { phase_.running_ = true; }
    ~Scope() { phase_.running_ = false; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    BackwardPhase& phase_;
  };

 private:
  bool MayReadNow(SourceKind kind) const;
  bool MayWriteNow() const;

  const FrameStack& frames_;
  BreakController& breaks_;
  bool running_ = false;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_BACKWARD_PHASE_H_
