// FunctionModes: the torch function modes and levels of forward-mode differentiation that the captured program pushed
// and has not popped. While there is one, torch's C functions call it, as they do eagerly, and its frames are
// evaluated. Invariant: what a capture pushed is off torch's stack after Restore, which its end calls. A graph ends
// where none is open: an attempt that breaks with one open is made anew and ends before the push.
#ifndef FRAMEFUSE_SYMBOLIC_AMBIENT_FUNCTION_MODES_H_
#define FRAMEFUSE_SYMBOLIC_AMBIENT_FUNCTION_MODES_H_

#include <c10/core/InferenceMode.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace framefuse {

class FunctionModes {
 public:
  FunctionModes();
  ~FunctionModes() { Restore(); }
  FunctionModes(const FunctionModes&) = delete;
  FunctionModes& operator=(const FunctionModes&) = delete;

  void EnterInferenceMode(bool mode);
  void LeaveInferenceMode();  // if it is on
  bool in_inference_mode() const { return !inference_.empty(); }
  // A level of forward-mode differentiation is torch's own and global: a handle for it, to be left at Restore.
  void NoteDualLevel(std::uint64_t level);
  void NoteDualLevelLeft();
  bool has_dual_level() const { return !dual_levels_.empty(); }
  void NotePush() { ++open_; }
  void NotePop() { --open_; }
  int open() const { return open_; }  // a handler that is running has taken its mode off the stack meanwhile
  void Restore();

 private:
  std::int64_t length_at_start_;
  std::vector<std::unique_ptr<c10::InferenceMode>> inference_;
  std::vector<std::uint64_t> dual_levels_;
  int open_ = 0;
};

// What is active that sees each operation, a torch function mode of the program's included: a capture that begins under
// it would have what it does once, and not at each call. Torch's own modes (torch.device as a context) do nothing
// besides. Null where there is none.
const char* InterceptorAtStart();

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_AMBIENT_FUNCTION_MODES_H_
