// JSON text, written piece by piece. Invariant: what comes out is valid JSON of ASCII characters, whatever bytes texts
// hold: those that are no UTF-8 are written as \xNN, in letters.
#ifndef FRAMEFUSE_COMMON_JSON_TEXT_H_
#define FRAMEFUSE_COMMON_JSON_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace framefuse {

std::string JsonString(std::string_view text);
std::string JsonList(const std::vector<std::string>& items);  // each of them JSON

class JsonObject {
 public:
  JsonObject& Text(std::string_view name, std::string_view value);
  JsonObject& Int(std::string_view name, std::int64_t value);
  JsonObject& Number(std::string_view name, double value);
  JsonObject& Bool(std::string_view name, bool value);
  JsonObject& Json(std::string_view name, std::string_view json);  // null where `json` is empty
  std::string Done() const { return "{" + members_ + "}"; }
  const std::string& members() const { return members_; }  // without the braces

 private:
  void Name(std::string_view name);
  std::string members_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_COMMON_JSON_TEXT_H_
