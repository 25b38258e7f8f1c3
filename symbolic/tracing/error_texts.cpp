#include "symbolic/tracing/error_texts.h"

#include <algorithm>
#include <array>

#include "symbolic/tracing/fake_tensor.h"

namespace framefuse::tracing {

bool IsAboutFakes(std::string_view text) {
  // The second: torch makes a tensor of the first argument's kind and takes its dispatch key for a device's. The last
  // two: a result of other sizes is given, and C++ resizes it without the dispatcher.
  constexpr std::array<std::string_view, 4> kWords = {
      kReadsFakeMemory, "DispatchKey Fake", "resize storage that is not resizable", "size_bytes_is_heap_allocated_"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

bool IsAboutSymbols(std::string_view text) {
  constexpr std::array<std::string_view, 9> kWords = {"SymInt",    "SymFloat",  "SymBool",     "SymNode",   "ymbolic s",
                                                      "ymbolic i", "ymbolic f", "is_symbolic", "isSymbolic"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

}  // namespace framefuse::tracing
