// TorchState: the torch settings that a captured program may change: those of a thread (grad mode, autocast), and of
// the process which kernels attention may take, for the recorder decides then which operator the graph has, and what
// operators go by when they run (the default dtype, backends that are on, determinism). A capture runs with the changes
// as they happen; its end restores the state at its start, and the entry applies the state at its end. A graph runs
// under one set of what operators go by. Value type.
#ifndef FRAMEFUSE_SYMBOLIC_AMBIENT_TORCH_STATE_H_
#define FRAMEFUSE_SYMBOLIC_AMBIENT_TORCH_STATE_H_

#include <array>
#include <cstdint>

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
  std::array<bool, 9> backends{};    // in the order of ReadBackends
  int default_dtype = 0;
  std::array<bool, 5> attention{};  // flash, memory-efficient, math, cuDNN, overrideable
  std::array<std::int8_t, 5> attention_order{};

  static TorchState Current();
  void Apply() const;
  void ApplyToOperators() const;  // what they go by when they run, alone
  bool SameForOperators(const TorchState& other) const {
    return backends == other.backends && default_dtype == other.default_dtype;
  }
  friend bool operator==(const TorchState&, const TorchState&) = default;

 private:
  void ReadBackends();
  void ReadAttention();
  void ApplyAttention() const;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_AMBIENT_TORCH_STATE_H_
