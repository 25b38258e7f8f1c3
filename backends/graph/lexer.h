// Lexer of the graph's text form: one line to tokens.
// Invariant: token texts are views into the line; the last token is kEnd. A comment (the origin) is kept whole.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_LEXER_H_
#define FRAMEFUSE_BACKENDS_GRAPH_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace framefuse::ir {

enum class TokenKind : std::uint8_t {
  kEnd,
  kName,     // aten.add.Tensor, f32, s0, grad
  kValue,    // %3: text without the percent sign
  kInteger,  // 12
  kFloat,    // 1.5, 1e-05
  kString,   // "…": text without the quotes, escapes as written
  kPunct,    // ( ) [ ] { } , : = + - * ** / // % == != < <=
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;
};

struct LexedLine {
  std::vector<Token> tokens;
  std::string_view comment;  // after '#', spaces trimmed
};

absl::StatusOr<LexedLine> LexLine(std::string_view line);
std::string Unescape(std::string_view quoted);

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_LEXER_H_
