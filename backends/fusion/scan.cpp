#include "backends/fusion/scan.h"

#include "backends/fusion/pointwise.h"
#include "backends/graph/dim_algebra.h"
#include "backends/graph/operators.h"

namespace framefuse::fusion {

std::optional<ScanForm> ScanOf(const ir::Graph& graph, const ir::Node& node) {
  if (!ir::Is(node.op, ir::OpName::kCumsum) || node.outputs.size() != 1 || node.outputs[0] == ir::kNoValue)
    return std::nullopt;
  if (node.args[0].kind != ir::Arg::Kind::kValue || node.args[1].kind != ir::Arg::Kind::kConstant) return std::nullopt;
  const ir::Value &in = graph.value(node.args[0].value), &out = graph.value(node.outputs[0]);
  if (!out.device.is_cpu() || !in.device.is_cpu() || in.layout != c10::Layout::Strided || in.sizes.empty())
    return std::nullopt;
  if (!StorageOf(in.dtype) || !StorageOf(out.dtype) || out.sizes != in.sizes) return std::nullopt;
  const bool floats = c10::isFloatingType(out.dtype);
  if (floats ? in.dtype != out.dtype : out.dtype != c10::ScalarType::Long || c10::isFloatingType(in.dtype))
    return std::nullopt;
  for (const ir::Dim& size : in.sizes) {
    if (ir::LowestOf(graph.exprs, size).value_or(0) < 1) return std::nullopt;
  }
  const std::int64_t given = node.args[1].constant.toInt();
  const auto dim = static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(in.sizes.size()) : given);
  if (in.sizes[dim] == ir::Dim(1)) return std::nullopt;
  ScanForm form{dim, kernel_ir::Type::kF64};
  if (!floats) form.type = kernel_ir::Type::kI64;
  if (c10::isReducedFloatingType(out.dtype)) form.type = kernel_ir::Type::kF32;
  return form;
}

}  // namespace framefuse::fusion
