// TorchState: the thread-wide torch settings that a captured program may change (grad mode, autocast).
// A capture runs with the changes as they happen; its end restores the state at its start, and the entry applies
// the state at its end. Value type.
#ifndef FRAMEFUSE_SYMBOLIC_AMBIENT_TORCH_STATE_H_
#define FRAMEFUSE_SYMBOLIC_AMBIENT_TORCH_STATE_H_

#include <array>

namespace framefuse {

struct TorchState {
  struct Autocast {
    bool enabled = false;
    int dtype = 0;
    friend bool operator==(const Autocast&, const Autocast&) = default;
  };
  bool grad_enabled = true;
  bool autocast_cache = true;
  int autocast_nesting = 0;
  std::array<Autocast, 2> autocast;  // CPU, CUDA

  static TorchState Current();
  void Apply() const;
  friend bool operator==(const TorchState&, const TorchState&) = default;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_AMBIENT_TORCH_STATE_H_
