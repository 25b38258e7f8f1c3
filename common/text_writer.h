// TextWriter: builds indented text line by line; every printer of ours (guards, graphs, kernels, explain) uses it.
// Invariant: a line is complete when Line returns; indentation is spaces, `width` a level.
#ifndef FRAMEFUSE_COMMON_TEXT_WRITER_H_
#define FRAMEFUSE_COMMON_TEXT_WRITER_H_

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace framefuse {

class TextWriter {
 public:
  explicit TextWriter(int width = 2) : width_(width) {}

  // One line out of the pieces, as absl::StrCat joins them; without pieces an empty line.
  template <class... Pieces>
  TextWriter& Line(const Pieces&... pieces) {
    if constexpr (sizeof...(pieces) > 0) {
      text_.append(static_cast<std::size_t>(level_) * static_cast<std::size_t>(width_), ' ');
      absl::StrAppend(&text_, pieces...);
    }
    text_.push_back('\n');
    return *this;
  }
  // Appends text that may hold several lines, each at the current level.
  TextWriter& Block(const std::string& lines);

  void Indent() { ++level_; }
  void Dedent() { --level_; }

  // Indents for a C++ scope: { TextWriter::Scope body(writer); writer.Line("return x"); }
  class Scope {
   public:
    explicit Scope(TextWriter& writer) : writer_(writer) { writer_.Indent(); }
    ~Scope() { writer_.Dedent(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    TextWriter& writer_;
  };

  const std::string& text() const { return text_; }
  std::string Take() { return std::exchange(text_, {}); }

 private:
  int width_;
  int level_ = 0;
  std::string text_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_COMMON_TEXT_WRITER_H_
