#include "common/json_text.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace framefuse {
namespace {

// The code point of the UTF-8 sequence at `text[i]` and its length; length 0: it is none.
struct Decoded {
  std::uint32_t point = 0;
  std::size_t length = 0;
};

Decoded Decode(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t k) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i + k])); };
  const std::uint32_t first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length == 0 || i + length > text.size()) return {};
  if (length == 1) return {first, 1};
  std::uint32_t point = first & (0xffU >> (length + 1));
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(k) & 0xc0) != 0x80) return {};
    point = point << 6 | (byte(k) & 0x3f);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = point >= 0xd800 && point < 0xe000;
  if (point < kLeast[length] || point > 0x10ffff || surrogate) return {};
  return {point, length};
}

void AppendPoint(std::uint32_t point, std::string* out) {
  switch (point) {
    case '"':
      out->append("\\\"");
      return;
    case '\\':
      out->append("\\\\");
      return;
    case '\n':
      out->append("\\n");
      return;
    case '\t':
      out->append("\\t");
      return;
    default:
      break;
  }
  if (point >= 0x20 && point < 0x7f) {
    out->push_back(static_cast<char>(point));
  } else if (point < 0x10000) {
    absl::StrAppendFormat(out, "\\u%04x", point);
  } else {
    const std::uint32_t rest = point - 0x10000;
    absl::StrAppendFormat(out, "\\u%04x\\u%04x", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
  }
}

}  // namespace

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const Decoded decoded = Decode(text, i);
    if (decoded.length == 0) {
      absl::StrAppendFormat(&out, "\\\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(text[i])));
      ++i;
      continue;
    }
    AppendPoint(decoded.point, &out);
    i += decoded.length;
  }
  out.push_back('"');
  return out;
}

std::string JsonList(const std::vector<std::string>& items) {
  std::string out = "[";
  for (const std::string& item : items) absl::StrAppend(&out, out.size() > 1 ? "," : "", item);
  out.push_back(']');
  return out;
}

void JsonObject::Name(std::string_view name) {
  absl::StrAppend(&members_, members_.empty() ? "" : ",", JsonString(name), ":");
}

JsonObject& JsonObject::Text(std::string_view name, std::string_view value) {
  Name(name);
  members_.append(JsonString(value));
  return *this;
}

JsonObject& JsonObject::Int(std::string_view name, std::int64_t value) {
  Name(name);
  absl::StrAppend(&members_, value);
  return *this;
}

JsonObject& JsonObject::Number(std::string_view name, double value) {
  Name(name);
  members_.append(std::isfinite(value) ? absl::StrFormat("%.6f", value) : "null");
  return *this;
}

JsonObject& JsonObject::Bool(std::string_view name, bool value) {
  Name(name);
  members_.append(value ? "true" : "false");
  return *this;
}

JsonObject& JsonObject::Json(std::string_view name, std::string_view json) {
  Name(name);
  members_.append(json.empty() ? std::string_view("null") : json);
  return *this;
}

}  // namespace framefuse
