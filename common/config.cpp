// The settings by name: config.def expanded into the three look-ups that Python and the environment need.
#include "common/config.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status.h"

namespace framefuse {
namespace {

absl::Status UnknownSetting(std::string_view name) {
  std::vector<std::string> names;
  for (const SettingInfo& info : ConfigSettings()) names.emplace_back(info.name);
  return absl::NotFoundError(
      absl::StrCat("unknown setting '", std::string(name), "'; the settings are: ", absl::StrJoin(names, ", ")));
}

template <class T>
absl::Status Assign(Setting<T>& setting, std::string_view name, const char* type, const SettingValue& value) {
  if (const T* typed = std::get_if<T>(&value)) {
    setting.set(*typed);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("setting '", std::string(name), "' takes ", type));
}

absl::Status AssignNumber(Setting<std::int64_t>& setting, std::string_view name, std::int64_t least,
                          const SettingValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value); number != nullptr && *number < least) {
    return absl::OutOfRangeError(
        absl::StrCat("setting '", std::string(name), "' takes ", least, " or more, not ", *number));
  }
  return Assign(setting, name, "an int", value);
}

absl::StatusOr<SettingValue> ParseLike(const SettingValue& initial, const std::string& name, const std::string& text) {
  if (std::holds_alternative<std::string>(initial)) return SettingValue(text);
  if (std::holds_alternative<bool>(initial)) {
    if (text == "1" || text == "true" || text == "True") return SettingValue(true);
    if (text == "0" || text == "false" || text == "False") return SettingValue(false);
    return absl::InvalidArgumentError(absl::StrCat("setting '", name, "' takes 0 or 1, not '", text, "'"));
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return absl::InvalidArgumentError(absl::StrCat("setting '", name, "' takes an integer, not '", text, "'"));
  }
  return SettingValue(number);
}

}  // namespace

Config& config() {
  static Config* const settings = new Config;  // never destroyed: threads may read it at exit
  return *settings;
}

const std::vector<SettingInfo>& ConfigSettings() {
  static const auto* const settings = new std::vector<SettingInfo>{
#define FF_CONFIG_BOOL(name, initial, text) {#name, text, SettingValue(bool{initial})},
#define FF_CONFIG_INT(name, initial, least, text) {#name, text, SettingValue(std::int64_t{initial})},
#define FF_CONFIG_STRING(name, initial, text) {#name, text, SettingValue(std::string(initial))},
#include "common/config.def"
#undef FF_CONFIG_BOOL
#undef FF_CONFIG_INT
#undef FF_CONFIG_STRING
  };
  return *settings;
}

absl::StatusOr<SettingValue> GetConfig(std::string_view name) {
#define FF_CONFIG_BOOL(setting, initial, text) \
  if (name == #setting) return SettingValue(config().setting.get());
#define FF_CONFIG_INT(setting, initial, least, text) FF_CONFIG_BOOL(setting, initial, text)
#define FF_CONFIG_STRING FF_CONFIG_BOOL
#include "common/config.def"
#undef FF_CONFIG_BOOL
#undef FF_CONFIG_INT
#undef FF_CONFIG_STRING
  return UnknownSetting(name);
}

absl::Status SetConfig(std::string_view name, const SettingValue& value) {
#define FF_CONFIG_BOOL(setting, initial, text) \
  if (name == #setting) return Assign(config().setting, name, "a bool", value);
#define FF_CONFIG_INT(setting, initial, least, text) \
  if (name == #setting) return AssignNumber(config().setting, name, least, value);
#define FF_CONFIG_STRING(setting, initial, text) \
  if (name == #setting) return Assign(config().setting, name, "a str", value);
#include "common/config.def"
#undef FF_CONFIG_BOOL
#undef FF_CONFIG_INT
#undef FF_CONFIG_STRING
  return UnknownSetting(name);
}

absl::Status SetConfigFromText(std::string_view text) {
  const absl::string_view whole(text.data(), text.size());
  for (absl::string_view item : absl::StrSplit(whole, ',', absl::SkipWhitespace())) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(item, absl::MaxSplits('=', 1));
    const std::string name(absl::StripAsciiWhitespace(parts.first));
    const std::string value(absl::StripAsciiWhitespace(parts.second));
    FF_ASSIGN_OR_RETURN(const SettingValue current, GetConfig(name));
    FF_ASSIGN_OR_RETURN(const SettingValue parsed, ParseLike(current, name, value));
    FF_RETURN_IF_ERROR(SetConfig(name, parsed));
  }
  return absl::OkStatus();
}

}  // namespace framefuse
