// Block: re-indents text that was made elsewhere; see text_writer.h.
#include "common/text_writer.h"

namespace framefuse {

TextWriter& TextWriter::Block(const std::string& lines) {
  std::size_t start = 0;
  while (start < lines.size()) {
    std::size_t end = lines.find('\n', start);
    if (end == std::string::npos) end = lines.size();
    if (end == start) {
      Line();
    } else {
      Line(lines.substr(start, end - start));
    }
    start = end + 1;
  }
  return *this;
}

}  // namespace framefuse
