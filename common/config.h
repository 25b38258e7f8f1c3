// config(): the process-wide tunables, one line each in config.def.
// Reads are one relaxed atomic load for booleans and integers; writes may come from any thread. A capture that must not
// see a value change half-way copies it at its start.
#ifndef FRAMEFUSE_COMMON_CONFIG_H_
#define FRAMEFUSE_COMMON_CONFIG_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace framefuse {

using SettingValue = std::variant<bool, std::int64_t, std::string>;

template <class T>
class Setting {
 public:
  explicit Setting(T initial) : value_(initial) {}
  T get() const { return value_.load(std::memory_order_relaxed); }
  operator T() const { return get(); }  // NOLINT(runtime/explicit): config().recompile_limit reads as a number
  void set(T value) { value_.store(value, std::memory_order_relaxed); }

 private:
  std::atomic<T> value_;
};

template <>
class Setting<std::string> {
 public:
  explicit Setting(std::string initial) : value_(std::move(initial)) {}
  std::string get() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return value_;
  }
  void set(std::string value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    value_ = std::move(value);
  }

 private:
  mutable std::mutex mutex_;
  std::string value_;
};

struct Config {
#define FF_CONFIG_BOOL(name, initial, text) Setting<bool> name{initial};
#define FF_CONFIG_INT(name, initial, least, text) Setting<std::int64_t> name{initial};
#define FF_CONFIG_STRING(name, initial, text) Setting<std::string> name{initial};
#include "common/config.def"
#undef FF_CONFIG_BOOL
#undef FF_CONFIG_INT
#undef FF_CONFIG_STRING
};

Config& config();

// ---- by name: for Python and the environment
struct SettingInfo {
  const char* name;
  const char* text;
  SettingValue initial;
};
const std::vector<SettingInfo>& ConfigSettings();
absl::StatusOr<SettingValue> GetConfig(std::string_view name);
// The value's type must be the setting's; the error lists the right names, or says the right type (InvalidArgument) or
// the range (OutOfRange).
absl::Status SetConfig(std::string_view name, const SettingValue& value);
// "name=value,name=value", as in FRAMEFUSE_CONFIG.
absl::Status SetConfigFromText(std::string_view text);

}  // namespace framefuse

#endif  // FRAMEFUSE_COMMON_CONFIG_H_
