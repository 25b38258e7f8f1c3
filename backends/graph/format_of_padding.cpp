#include "backends/graph/format_of_padding.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace framefuse::ir {
namespace {

constexpr std::array<std::string_view, 8> kPaddings = {
    "aten.reflection_pad2d",          "aten.reflection_pad3d",          "aten.replication_pad2d",
    "aten.replication_pad3d",         "aten.reflection_pad2d_backward", "aten.reflection_pad3d_backward",
    "aten.replication_pad2d_backward", "aten.replication_pad3d_backward"};

}  // namespace

bool PadsInFormat(OpId op) { return std::find(kPaddings.begin(), kPaddings.end(), op->name()) != kPaddings.end(); }

}  // namespace framefuse::ir
