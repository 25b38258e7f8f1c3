// Quiet: what must not happen in the middle of an attempt, and what an attempt may not leave behind.
// Invariant: garbage collection and torch's state are afterwards as they were before.
#ifndef FRAMEFUSE_SYMBOLIC_AMBIENT_QUIET_H_
#define FRAMEFUSE_SYMBOLIC_AMBIENT_QUIET_H_

#include "guards/leaf/saved_tensor_hooks.h"
#include "symbolic/ambient/torch_state.h"

namespace framefuse {

class Quiet {
 public:
  static inline thread_local int depth = 0;  // attempts of this thread that are under way

  Quiet() : gc_was_on_(PyGC_Disable() != 0), state_(TorchState::Current()) { ++depth; }
  ~Quiet() {
    --depth;
    state_.Apply();
    if (gc_was_on_) PyGC_Enable();
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  const SavedTensorHooksUncalled hooks_;
  bool gc_was_on_;
  TorchState state_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_AMBIENT_QUIET_H_
