#include "backends/fusion/reduction.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "backends/fusion/pointwise.h"
#include "backends/graph/dim_algebra.h"
#include "backends/graph/operators.h"

namespace framefuse::fusion {
namespace {

// The loss of each row: minus the element that the target names, 0 where it is to be ignored.
bool IsPick(const ir::Graph& graph, const ir::Node& node, ReductionForm* form) {
  if (!ir::Is(node.op, ir::OpName::kNllLossForward) || node.outputs[0] == ir::kNoValue ||
      node.outputs[1] != ir::kNoValue)
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
  *form = {.begin = 1, .end = 2, .picks = true};
  return true;
}

// What a reduction's operator is in a kernel. Arguments: the tensor, its dimensions (a list, or one), keepdim.
struct ReductionRow {
  ir::OpName name;
  kernel_ir::Op op;
  bool widens;       // integers and bools give an int64
  bool of_symbolic;  // what it gives of nothing is a number: a size that may be 0 is no obstacle
  bool of_integers;
  bool of_halves;  // eager keeps a float32 between two elements
  bool index = false;
};

constexpr ReductionRow kRows[] = {
    {ir::OpName::kSumDimIntList, kernel_ir::Op::kReduceSum, true, true, true, true},
    {ir::OpName::kProdDimInt, kernel_ir::Op::kReduceProd, true, true, false, false},
    {ir::OpName::kAmax, kernel_ir::Op::kReduceMax, false, false, true, true},
    {ir::OpName::kAmin, kernel_ir::Op::kReduceMin, false, false, true, true},
    {ir::OpName::kArgmax, kernel_ir::Op::kReduceMax, false, false, true, true, true},
    {ir::OpName::kArgmin, kernel_ir::Op::kReduceMin, false, false, true, true, true},
};

const ReductionRow* RowOf(ir::OpName name) {
  const auto* row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const ReductionRow& r) { return r.name == name; });
  return row != std::end(kRows) ? row : nullptr;
}

bool TypesFit(const ReductionRow& row, const ir::Value& in, const ir::Value& out) {
  if (!StorageOf(in.dtype) || !StorageOf(out.dtype) || in.layout != c10::Layout::Strided) return false;
  if (row.index) return true;
  if (!row.of_integers && !(c10::isFloatingType(in.dtype) && c10::isFloatingType(out.dtype))) return false;
  if (!row.of_halves && (c10::isReducedFloatingType(in.dtype) || in.dtype != out.dtype)) return false;
  if (row.widens) return out.dtype != c10::ScalarType::Bool;
  return in.dtype != c10::ScalarType::Bool && in.dtype == out.dtype;
}

// Of the argument; all where it names none. Nothing where it is not known.
std::optional<std::vector<std::int64_t>> DimensionsOf(const ir::Arg& arg, std::int64_t rank) {
  std::vector<std::int64_t> dims;
  if (arg.kind == ir::Arg::Kind::kConstant && arg.constant.isIntList()) {
    dims = arg.constant.toIntVector();
  } else if (arg.kind == ir::Arg::Kind::kConstant && arg.constant.isInt()) {
    dims = {arg.constant.toInt()};
  } else if (arg.kind != ir::Arg::Kind::kNone && !arg.constant.isNone()) {
    return std::nullopt;
  }
  if (dims.empty()) {
    for (std::int64_t d = 0; d < rank; ++d) dims.push_back(d);
  }
  for (std::int64_t& d : dims) d = d < 0 ? d + rank : d;
  std::sort(dims.begin(), dims.end());
  return dims;
}

}  // namespace

bool IsReduction(const ir::Graph& graph, const ir::Node& node, ReductionForm* form) {
  if (IsPick(graph, node, form)) return true;
  const ReductionRow* row = RowOf(ir::NameOf(node.op));
  if (row == nullptr) return false;
  if (node.outputs.size() != 1 || node.outputs[0] == ir::kNoValue || node.args[0].kind != ir::Arg::Kind::kValue)
    return false;
  const ir::Value& in = graph.value(node.args[0].value);
  if (!TypesFit(*row, in, graph.value(node.outputs[0])) || in.sizes.empty()) return false;
  const auto dims = DimensionsOf(node.args[1], static_cast<std::int64_t>(in.sizes.size()));
  if (!dims) return false;
  for (std::size_t i = 1; i < dims->size(); ++i) {
    if ((*dims)[i] != (*dims)[i - 1] + 1) return false;
  }
  form->op = row->op;
  form->index = row->index;
  form->begin = static_cast<std::size_t>(dims->front());
  form->end = static_cast<std::size_t>(dims->back()) + 1;
  form->keep = node.args[2].kind == ir::Arg::Kind::kConstant && node.args[2].constant.toBool();
  bool all_one = true;
  for (std::size_t d = form->begin; d < form->end; ++d) {
    const ir::Dim& size = in.sizes[d];
    if (size == ir::Dim(0)) return false;  // eager's rules for empty reductions are its own
    if (!row->of_symbolic && ir::LowestOf(graph.exprs, size).value_or(0) < 1) return false;
    all_one = all_one && size == ir::Dim(1);
  }
  if (row->index && !HasIndexKernel(graph, in, form->begin, form->end)) return false;
  return !all_one;
}

bool HasIndexKernel(const ir::Graph& graph, const ir::Value& in, std::size_t begin, std::size_t end) {
  if (!StorageOf(in.dtype) || in.dtype == c10::ScalarType::Bool || in.layout != c10::Layout::Strided) return false;
  if (!in.device.is_cpu() && !(kIndicesOnCuda && in.device.is_cuda())) return false;
  bool constant = true, all_one = true;
  for (const ir::Dim& size : in.sizes) {
    if (size == ir::Dim(0)) return false;
    constant = constant && size.is_constant();
  }
  for (std::size_t d = begin; d < end; ++d) {
    if (ir::LowestOf(graph.exprs, in.sizes[d]).value_or(0) < 1) return false;
    all_one = all_one && in.sizes[d] == ir::Dim(1);
  }
  // Between the loops of a column the extremes are in memory that is as large as the sizes say.
  return !all_one && (constant || end == in.sizes.size());
}

bool IsBesideChannels(const ir::Graph& graph, const ir::Node& node, const ReductionForm& form) {
  if (form.picks || form.begin == 0 || form.end - form.begin < 2) return false;
  const ir::Value& v = graph.value(node.args[0].value);
  const std::size_t channels = form.begin - 1;
  return v.strides[channels].Is(1) && !v.sizes[channels].Is(1) && !v.strides[form.end - 1].Is(1);
}

}  // namespace framefuse::fusion
