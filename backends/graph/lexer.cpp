#include "backends/graph/lexer.h"

#include <cctype>

#include "absl/strings/str_cat.h"

namespace framefuse::ir {
namespace {

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c) || c == '.'; }

std::size_t EndOfNumber(std::string_view s, std::size_t i, bool* is_float) {
  while (i < s.size() && IsDigit(s[i])) ++i;
  if (i < s.size() && s[i] == '.') {
    *is_float = true;
    ++i;
    while (i < s.size() && IsDigit(s[i])) ++i;
  }
  if (i < s.size() && (s[i] == 'e' || s[i] == 'E')) {
    *is_float = true;
    ++i;
    if (i < s.size() && (s[i] == '+' || s[i] == '-')) ++i;
    while (i < s.size() && IsDigit(s[i])) ++i;
  }
  return i;
}

std::size_t EndOfString(std::string_view s, std::size_t i) {
  while (i < s.size() && s[i] != '"') i += s[i] == '\\' ? 2 : 1;
  return i;
}

}  // namespace

absl::StatusOr<LexedLine> LexLine(std::string_view s) {
  LexedLine line;
  std::size_t i = 0;
  auto take = [&](TokenKind kind, std::size_t end) {
    line.tokens.push_back({kind, s.substr(i, end - i)});
    i = end;
  };
  while (i < s.size()) {
    char c = s[i];
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++i;
    } else if (c == '#') {
      std::size_t begin = s.find_first_not_of(' ', i + 1);
      if (begin != std::string_view::npos) line.comment = s.substr(begin);
      break;
    } else if (IsNameStart(c)) {
      std::size_t end = i;
      while (end < s.size() && IsNamePart(s[end])) ++end;
      take(TokenKind::kName, end);
    } else if (IsDigit(c)) {
      bool is_float = false;
      std::size_t end = EndOfNumber(s, i, &is_float);
      take(is_float ? TokenKind::kFloat : TokenKind::kInteger, end);
    } else if (c == '%' && i + 1 < s.size() && IsNamePart(s[i + 1])) {
      ++i;
      std::size_t end = i;
      while (end < s.size() && IsNamePart(s[end])) ++end;
      take(TokenKind::kValue, end);
    } else if (c == '"') {
      ++i;
      std::size_t end = EndOfString(s, i);
      if (end >= s.size()) return absl::InvalidArgumentError("string without end");
      take(TokenKind::kString, end);
      ++i;
    } else {
      static constexpr std::string_view kTwo[] = {"**", "//", "==", "!=", "<="};
      static constexpr std::string_view kOne = "()[]{},:=+-*/%<";
      bool two = false;
      for (std::string_view p : kTwo) two = two || s.substr(i, 2) == p;
      if (!two && kOne.find(c) == std::string_view::npos) {
        return absl::InvalidArgumentError(absl::StrCat("unexpected character '", std::string(1, c), "'"));
      }
      take(TokenKind::kPunct, i + (two ? 2 : 1));
    }
  }
  line.tokens.push_back({});
  return line;
}

std::string Unescape(std::string_view quoted) {
  std::string text;
  for (std::size_t i = 0; i < quoted.size(); ++i) {
    if (quoted[i] == '\\' && i + 1 < quoted.size()) {
      ++i;
      text += quoted[i] == 'n' ? '\n' : quoted[i];
    } else {
      text += quoted[i];
    }
  }
  return text;
}

}  // namespace framefuse::ir
