#include "backends/fusion/reduction.h"

#include <algorithm>
#include <string>

#include "backends/fusion/pointwise.h"

namespace framefuse::fusion {
namespace {

// The loss of each row: minus the element that the target names, 0 where it is to be ignored.
bool IsPick(const ir::Graph& graph, const ir::Node& node, ReductionForm* form) {
  if (node.op->name() != "aten.nll_loss_forward" || node.outputs[0] == ir::kNoValue || node.outputs[1] != ir::kNoValue)
    return false;
  for (std::size_t a : {3u, 4u}) {
    if (node.args[a].kind != ir::Arg::Kind::kConstant) return false;
  }
  const bool weighted = node.args[2].kind == ir::Arg::Kind::kValue;
  if (weighted || node.args[3].constant.toInt() != 0) return false;
  const ir::Value &in = graph.value(node.args[0].value), &target = graph.value(node.args[1].value);
  if (!c10::isFloatingType(in.dtype) || !StorageOf(in.dtype) || in.layout != c10::Layout::Strided) return false;
  if (in.sizes.size() != 2 || target.sizes.size() != 1 || target.dtype != c10::ScalarType::Long) return false;
  // Indices are checked: on the CPU before the kernel runs, on CUDA by it.
  if (!(in.device.is_cpu() || in.device.is_cuda()) || in.sizes[1] == ir::Dim(0) || in.sizes[1] == ir::Dim(1))
    return false;
  *form = {1, 2, false, true};
  return true;
}

}  // namespace

bool IsReduction(const ir::Graph& graph, const ir::Node& node, ReductionForm* form) {
  if (IsPick(graph, node, form)) return true;
  const std::string& name = node.op->name();
  const bool sum = name == "aten.sum.dim_IntList";
  if (!sum && name != "aten.amax" && name != "aten.amin") return false;
  if (node.outputs.size() != 1 || node.outputs[0] == ir::kNoValue || node.args[0].kind != ir::Arg::Kind::kValue)
    return false;
  const ir::Value& in = graph.value(node.args[0].value);
  const ir::Value& out = graph.value(node.outputs[0]);
  if (!StorageOf(in.dtype) || !StorageOf(out.dtype) || in.layout != c10::Layout::Strided) return false;
  if (!sum && (in.dtype == c10::ScalarType::Bool || in.dtype != out.dtype)) return false;
  if (sum && out.dtype == c10::ScalarType::Bool) return false;
  const auto rank = static_cast<std::int64_t>(in.sizes.size());
  std::vector<std::int64_t> dims;
  if (node.args[1].kind == ir::Arg::Kind::kConstant && node.args[1].constant.isIntList()) {
    dims = node.args[1].constant.toIntVector();
  } else if (node.args[1].kind != ir::Arg::Kind::kNone && !node.args[1].constant.isNone()) {
    return false;
  }
  if (rank == 0) return false;
  if (dims.empty()) {
    for (std::int64_t d = 0; d < rank; ++d) dims.push_back(d);
  }
  for (std::int64_t& d : dims) d = d < 0 ? d + rank : d;
  std::sort(dims.begin(), dims.end());
  for (std::size_t i = 1; i < dims.size(); ++i) {
    if (dims[i] != dims[i - 1] + 1) return false;
  }
  form->begin = static_cast<std::size_t>(dims.front());
  form->end = static_cast<std::size_t>(dims.back()) + 1;
  form->keep = node.args[2].kind == ir::Arg::Kind::kConstant && node.args[2].constant.toBool();
  bool all_one = true;
  for (std::size_t d = form->begin; d < form->end; ++d) {
    const ir::Dim& size = in.sizes[d];
    if (size == ir::Dim(0)) return false;  // eager's rules for empty reductions are its own
    if (!sum && size.is_symbolic()) return false;
    all_one = all_one && size == ir::Dim(1);
  }
  return !all_one;
}

}  // namespace framefuse::fusion
