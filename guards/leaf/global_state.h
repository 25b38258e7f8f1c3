// leaf/global_state: torch's process- and thread-wide state that decides what a captured function computes.
// Grad and inference mode, autocast per device, default dtype, modes and functorch levels, determinism, backend
// switches, thread-local dispatch keys: one packed struct, read and compared in some ten nanoseconds.
// Torch's headers stay in global_state.cpp.
#ifndef FRAMEFUSE_GUARDS_LEAF_GLOBAL_STATE_H_
#define FRAMEFUSE_GUARDS_LEAF_GLOBAL_STATE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace framefuse {

struct GlobalState {
  std::uint64_t included_keys = 0;  // thread-local dispatch keys: autocast, grad mode's, modes', functorch's
  std::uint64_t excluded_keys = 0;
  std::uint64_t switches = 0;               // a bit each, in the order of kSwitchNames in global_state.cpp
  std::uint64_t settings = 0;               // torch_settings.h; 0: the program asks for none of them
  const void* top_function_mode = nullptr;  // torch function mode on top of the stack (torch.device as a context …)
  const void* top_dispatch_mode = nullptr;
  std::uint32_t attention_order = 0;  // an octal digit a kernel, the first tried on the left
  std::uint16_t function_modes = 0;
  std::uint16_t dispatch_modes = 0;
  std::uint8_t default_dtype = 0;
  std::uint8_t autocast_cpu_dtype = 0;
  std::uint8_t autocast_cuda_dtype = 0;
  std::uint8_t torch_function_disabled = 0;

  bool operator==(const GlobalState&) const = default;
};

// As it is now, on this thread.
GlobalState ReadGlobalState(bool with_settings = false) noexcept;
// What is active that sees or changes each operation (a dispatch mode, saved-tensor hooks, a functorch level …), so
// that operations recorded in its absence mean something else; null where nothing is.
const char* ActiveInterceptor() noexcept;
// The first difference, such as "grad mode: expected enabled, actual disabled"; empty where none.
std::string ExplainGlobalState(const GlobalState& expected, const GlobalState& actual);
// What an explanation may name: each beginning of it.
std::vector<std::string_view> GlobalStateParts();
std::string DescribeGlobalState(const GlobalState& state);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_LEAF_GLOBAL_STATE_H_
