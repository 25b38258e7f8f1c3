#include "backends/graph/text_names.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace framefuse::ir {
namespace {

using c10::Layout;
using c10::MemoryFormat;
using c10::ScalarType;

constexpr auto kDtypes = std::to_array<std::pair<ScalarType, std::string_view>>({
    {ScalarType::Float, "f32"},
    {ScalarType::Double, "f64"},
    {ScalarType::Half, "f16"},
    {ScalarType::BFloat16, "bf16"},
    {ScalarType::Long, "i64"},
    {ScalarType::Int, "i32"},
    {ScalarType::Short, "i16"},
    {ScalarType::Char, "i8"},
    {ScalarType::Byte, "u8"},
    {ScalarType::UInt16, "u16"},
    {ScalarType::UInt32, "u32"},
    {ScalarType::UInt64, "u64"},
    {ScalarType::Bool, "bool"},
    {ScalarType::ComplexFloat, "c64"},
    {ScalarType::ComplexDouble, "c128"},
    {ScalarType::ComplexHalf, "c32"},
    {ScalarType::Float8_e4m3fn, "f8e4m3fn"},
    {ScalarType::Float8_e5m2, "f8e5m2"},
    {ScalarType::Float8_e4m3fnuz, "f8e4m3fnuz"},
    {ScalarType::Float8_e5m2fnuz, "f8e5m2fnuz"},
    {ScalarType::QInt8, "qi8"},
    {ScalarType::QUInt8, "qu8"},
    {ScalarType::QInt32, "qi32"},
});

constexpr auto kLayouts = std::to_array<std::pair<Layout, std::string_view>>({
    {Layout::Strided, "strided"},
    {Layout::Sparse, "sparse_coo"},
    {Layout::SparseCsr, "sparse_csr"},
    {Layout::SparseCsc, "sparse_csc"},
    {Layout::SparseBsr, "sparse_bsr"},
    {Layout::SparseBsc, "sparse_bsc"},
    {Layout::Mkldnn, "mkldnn"},
    {Layout::Jagged, "jagged"},
});

constexpr auto kMemoryFormats = std::to_array<std::pair<MemoryFormat, std::string_view>>({
    {MemoryFormat::Contiguous, "contiguous_format"},
    {MemoryFormat::Preserve, "preserve_format"},
    {MemoryFormat::ChannelsLast, "channels_last"},
    {MemoryFormat::ChannelsLast3d, "channels_last_3d"},
});

template <typename Table, typename Key>
std::string NameIn(const Table& table, Key key, const char* fallback) {
  for (const auto& [k, name] : table) {
    if (k == key) return std::string(name);
  }
  return fallback + std::to_string(static_cast<int>(key));
}

template <typename Key, typename Table>
std::optional<Key> FindIn(const Table& table, std::string_view name) {
  for (const auto& [k, n] : table) {
    if (n == name) return k;
  }
  return std::nullopt;
}

}  // namespace

std::string PrintDtype(ScalarType t) { return NameIn(kDtypes, t, "dtype"); }

std::optional<ScalarType> ParseDtype(std::string_view name) {
  if (auto known = FindIn<ScalarType>(kDtypes, name)) return known;
  constexpr std::string_view kPrefix = "dtype";
  if (name.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  int number = -1;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), number);
  if (number < 0 || number >= static_cast<int>(ScalarType::NumOptions)) return std::nullopt;
  return static_cast<ScalarType>(number);
}

std::string PrintLayout(Layout layout) { return NameIn(kLayouts, layout, "layout"); }
std::optional<Layout> ParseLayout(std::string_view name) { return FindIn<Layout>(kLayouts, name); }
std::string PrintMemoryFormat(MemoryFormat format) { return NameIn(kMemoryFormats, format, "memory_format"); }
std::optional<MemoryFormat> ParseMemoryFormat(std::string_view name) {
  return FindIn<MemoryFormat>(kMemoryFormats, name);
}

std::string PrintFloat(double v) {
  if (std::isnan(v)) return std::signbit(v) ? "-nan" : "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer;
  auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), v);
  std::string text(buffer.data(), result.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n') {
      quoted += "\\n";
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace framefuse::ir
