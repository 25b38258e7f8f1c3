// error_texts: what the text of an error that came out of torch speaks of.
// Invariant: a text that is said to be of fakes or of symbols is one that eager never makes.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_ERROR_TEXTS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_ERROR_TEXTS_H_

#include <string_view>

namespace framefuse::tracing {

// Of a fake, which no real tensor would get.
bool IsAboutFakes(std::string_view text);
// Of symbolic sizes, which no plain number would get.
bool IsAboutSymbols(std::string_view text);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_ERROR_TEXTS_H_
