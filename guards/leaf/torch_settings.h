// leaf/torch_settings: settings of torch that few programs read (how exact float32 products are, how many threads there
// are): one number, compared only by entries whose programs read or set one of them.
// Invariant: two states that give the same number answer every listed question alike.
#ifndef FRAMEFUSE_GUARDS_LEAF_TORCH_SETTINGS_H_
#define FRAMEFUSE_GUARDS_LEAF_TORCH_SETTINGS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace framefuse {

inline constexpr std::string_view kTorchSettings = "torch's settings";

std::uint64_t ReadTorchSettings() noexcept;  // never 0
// The first difference; empty where none.
std::string ExplainTorchSettings(std::uint64_t expected, std::uint64_t actual);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_LEAF_TORCH_SETTINGS_H_
