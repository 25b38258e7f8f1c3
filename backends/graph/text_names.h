// Names that the graph's text form uses for dtypes, layouts, memory formats and numbers.
// Invariant: each Print… has a Parse… that inverts it.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_TEXT_NAMES_H_
#define FRAMEFUSE_BACKENDS_GRAPH_TEXT_NAMES_H_

#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

namespace framefuse::ir {

std::string PrintDtype(c10::ScalarType t);  // f32, bf16, i64, bool …
std::optional<c10::ScalarType> ParseDtype(std::string_view name);
std::string PrintLayout(c10::Layout layout);  // strided, sparse_csr …
std::optional<c10::Layout> ParseLayout(std::string_view name);
std::string PrintMemoryFormat(c10::MemoryFormat format);  // contiguous_format, channels_last …
std::optional<c10::MemoryFormat> ParseMemoryFormat(std::string_view name);
// Shortest text that reads back exactly, always with a '.', an exponent, inf or nan.
std::string PrintFloat(double v);
std::string Quote(std::string_view text);  // "a \"b\"\n"

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_TEXT_NAMES_H_
