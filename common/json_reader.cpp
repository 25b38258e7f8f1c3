#include "common/json_reader.h"

#include <algorithm>
#include <charconv>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace framefuse {
namespace {

void AppendUtf8(std::uint32_t point, std::string* out) {
  const auto put = [&](std::uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (point < 0x80) return put(point);
  if (point < 0x800) {
    put(0xc0 | point >> 6);
  } else if (point < 0x10000) {
    put(0xe0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3f));
  } else {
    put(0xf0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3f));
    put(0x80 | (point >> 6 & 0x3f));
  }
  put(0x80 | (point & 0x3f));
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  absl::StatusOr<JsonValue> Whole() {
    FF_ASSIGN_OR_RETURN(JsonValue value, Value(0));
    SkipSpace();
    if (at_ != text_.size()) return Bad("text behind the value");
    return value;
  }

 private:
  absl::Status Bad(std::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("no JSON at byte ", at_, ": ", std::string(what)));
  }
  void SkipSpace() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool TakeWord(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  absl::StatusOr<JsonValue> Value(int depth) {
    JsonValue value;
    if (depth > JsonValue::kMostDepth) return Bad("nested too deeply");
    SkipSpace();
    if (at_ >= text_.size()) return Bad("a value is missing");
    if (text_[at_] == '{') return Object(depth);
    if (text_[at_] == '[') return List(depth);
    if (text_[at_] == '"') {
      value.kind = JsonValue::Kind::kText;
      FF_ASSIGN_OR_RETURN(value.text, Text());
      return value;
    }
    if (TakeWord("null")) return value;
    value.kind = JsonValue::Kind::kBool;
    value.number = TakeWord("true") ? 1 : 0;
    if (value.number == 1 || TakeWord("false")) return value;
    value.kind = JsonValue::Kind::kInteger;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value.number);
    if (error != std::errc()) return Bad("no value");
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  absl::StatusOr<JsonValue> List(int depth) {
    JsonValue list;
    list.kind = JsonValue::Kind::kList;
    Take('[');
    if (Take(']')) return list;
    do {
      FF_ASSIGN_OR_RETURN(JsonValue item, Value(depth + 1));
      list.items.push_back(std::move(item));
    } while (Take(','));
    if (!Take(']')) return Bad("a list has no end");
    return list;
  }

  absl::StatusOr<JsonValue> Object(int depth) {
    JsonValue object;
    object.kind = JsonValue::Kind::kObject;
    absl::flat_hash_set<std::string> names;
    Take('{');
    if (Take('}')) return object;
    do {
      SkipSpace();
      FF_ASSIGN_OR_RETURN(std::string name, Text());
      if (!names.insert(name).second) return Bad("two members of one name");
      if (!Take(':')) return Bad("a member has no value");
      FF_ASSIGN_OR_RETURN(JsonValue value, Value(depth + 1));
      object.members.emplace_back(std::move(name), std::move(value));
    } while (Take(','));
    if (!Take('}')) return Bad("an object has no end");
    return object;
  }

  absl::StatusOr<std::string> Text() {
    if (at_ >= text_.size() || text_[at_] != '"') return Bad("a text is missing");
    ++at_;
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (static_cast<unsigned char>(text_[at_]) < 0x20) return Bad("a control character in a text");
      if (text_[at_] != '\\') {
        out.push_back(text_[at_++]);
        continue;
      }
      FF_RETURN_IF_ERROR(Escape(&out));
    }
    if (at_ >= text_.size()) return Bad("a text has no end");
    ++at_;
    return out;
  }

  absl::Status Escape(std::string* out) {
    static constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    if (++at_ >= text_.size()) return Bad("a text has no end");
    const char letter = text_[at_++];
    if (const std::size_t i = kLetters.find(letter); i != std::string_view::npos) {
      out->push_back(kMeant[i]);
      return absl::OkStatus();
    }
    if (letter != 'u') return Bad("an unknown escape");
    FF_ASSIGN_OR_RETURN(std::uint32_t point, FourDigits());
    if (point >= 0xd800 && point < 0xdc00) {
      if (!TakeWord("\\u")) return Bad("half a character");
      FF_ASSIGN_OR_RETURN(const std::uint32_t low, FourDigits());
      if (low < 0xdc00 || low >= 0xe000) return Bad("half a character");
      point = 0x10000 + ((point - 0xd800) << 10 | (low - 0xdc00));
    } else if (point >= 0xdc00 && point < 0xe000) {
      return Bad("half a character");
    }
    AppendUtf8(point, out);
    return absl::OkStatus();
  }

  absl::StatusOr<std::uint32_t> FourDigits() {
    std::uint32_t number = 0;
    const std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
    if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4) return Bad("an unknown escape");
    at_ += 4;
    return number;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

const JsonValue* JsonValue::Find(std::string_view name) const {
  for (const auto& [own, value] : members) {
    if (own == name) return &value;
  }
  return nullptr;
}

absl::StatusOr<JsonValue> ReadJson(std::string_view text) { return Reader(text).Whole(); }

}  // namespace framefuse
