// JsonValue: JSON text, read. Numbers are integers: nobody here writes others. Invariant: any bytes may be given; what
// is no JSON, is nested deeper than kMostDepth or names a member twice is an error that says where.
#ifndef FRAMEFUSE_COMMON_JSON_READER_H_
#define FRAMEFUSE_COMMON_JSON_READER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace framefuse {

struct JsonValue {
  enum class Kind : std::uint8_t { kNull, kBool, kInteger, kText, kList, kObject };
  static constexpr int kMostDepth = 32;

  Kind kind = Kind::kNull;
  std::int64_t number = 0;  // kInteger; kBool: 0 or 1
  std::string text;         // kText, in UTF-8
  std::vector<JsonValue> items;
  std::vector<std::pair<std::string, JsonValue>> members;  // in the text's order

  const JsonValue* Find(std::string_view name) const;  // null: no such member
};

absl::StatusOr<JsonValue> ReadJson(std::string_view text);

}  // namespace framefuse

#endif  // FRAMEFUSE_COMMON_JSON_READER_H_
