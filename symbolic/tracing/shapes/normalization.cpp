// Layer, group, batch and RMS norm, with their backwards. Mixed types are left to torch's meta kernels.
#include "backends/graph/operators.h"
#include "symbolic/tracing/shapes/shapes.h"

namespace framefuse::tracing {
namespace {

// Type of the statistics: fp32 for half types on CUDA, the input's own on the CPU.
c10::ScalarType StatisticsType(const at::Tensor& x) {
  const c10::ScalarType t = x.scalar_type();
  const bool half = t == c10::ScalarType::Half || t == c10::ScalarType::BFloat16;
  return x.is_cuda() && half ? c10::ScalarType::Float : t;
}

bool SameTypeIfGiven(const at::Tensor& x, const c10::IValue& v) {
  const at::Tensor* t = OptionalTensor(v);
  return t == nullptr || t->scalar_type() == x.scalar_type();
}

OutputMeta Undefined() {
  OutputMeta m;
  m.defined = false;
  return m;
}

// (input, normalized_shape, weight, bias, eps)
bool LayerNorm(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  if (!SameTypeIfGiven(x, args[2]) || !SameTypeIfGiven(x, args[3])) return false;
  const Dims normalized = SymInts(args[1]);
  auto sizes = x.sym_sizes();
  if (normalized.empty() || normalized.size() > sizes.size()) return false;
  const std::size_t lead = sizes.size() - normalized.size();
  Dims statistics = ToDims(sizes);
  for (std::size_t i = 0; i < normalized.size(); ++i) {
    if (!sizes[lead + i].sym_eq(normalized[i]).guard_bool(__FILE__, __LINE__)) return false;
    statistics[lead + i] = 1;
  }
  outputs.push_back(ContiguousLike(x));
  outputs.push_back(Contiguous(statistics, StatisticsType(x)));
  outputs.push_back(outputs[1]);
  return true;
}

// (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)
bool LayerNormBackward(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[1].toTensor();
  if (!SameTypeIfGiven(x, args[5]) || !SameTypeIfGiven(x, args[6])) return false;
  const auto mask = args[7].toBoolList();
  const at::Tensor* weight = OptionalTensor(args[5]);
  const at::Tensor* bias = OptionalTensor(args[6]);
  outputs.push_back(mask[0] ? ContiguousLike(x) : Undefined());
  outputs.push_back(mask[1] && weight != nullptr ? ContiguousLike(*weight) : Undefined());
  outputs.push_back(mask[2] && bias != nullptr ? ContiguousLike(*bias) : Undefined());
  return true;
}

// (input, weight, bias, N, C, HxW, group, eps)
bool GroupNorm(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  if (!IsContiguous(x) || !SameTypeIfGiven(x, args[1]) || !SameTypeIfGiven(x, args[2])) return false;
  const c10::ScalarType statistics = x.is_cuda() ? x.scalar_type() : StatisticsType(x);
  outputs.push_back(ContiguousLike(x));
  outputs.push_back(Contiguous({args[3].toSymInt(), c10::SymInt(args[6].toInt())}, statistics));
  outputs.push_back(outputs[1]);
  return true;
}

// (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)
bool GroupNormBackward(Arguments args, Outputs& outputs) {
  const at::Tensor& grad = args[0].toTensor();
  const at::Tensor& x = args[1].toTensor();
  if (!IsContiguous(x) || !IsContiguous(grad) || !SameTypeIfGiven(x, args[4])) return false;
  const auto mask = args[9].toBoolList();
  const OutputMeta channel = Contiguous({args[6].toSymInt()}, x.scalar_type());
  outputs.push_back(mask[0] ? ContiguousLike(x) : Undefined());
  outputs.push_back(mask[1] ? channel : Undefined());
  outputs.push_back(mask[2] ? channel : Undefined());
  return true;
}

bool BatchNormOutputs(const at::Tensor& x, const c10::IValue& weight, bool training, Outputs& outputs) {
  if (!SameTypeIfGiven(x, weight) || x.dim() < 2 || !IsNonOverlappingAndDense(x)) return false;
  c10::MemoryFormat format = x.suggest_memory_format();
  if (!x.is_contiguous(format)) {
    if (!x.is_cpu()) return false;
    format = c10::MemoryFormat::Contiguous;  // its kernel for metadata says otherwise
  }
  outputs.push_back(WithFormat(ToDims(x.sym_sizes()), x.scalar_type(), format));
  const c10::SymInt channels = training ? x.sym_size(1) : c10::SymInt(0);
  outputs.push_back(Contiguous({channels}, StatisticsType(x)));
  outputs.push_back(outputs[1]);
  return true;
}

// (input, weight, bias, running_mean, running_var, training, momentum, eps)
bool BatchNorm(Arguments args, Outputs& outputs) {
  return BatchNormOutputs(args[0].toTensor(), args[1], args[5].toBool(), outputs);
}

// (input, weight, bias, training, momentum, eps)
bool BatchNormNoStatistics(Arguments args, Outputs& outputs) {
  return BatchNormOutputs(args[0].toTensor(), args[1], args[3].toBool(), outputs);
}

// (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask)
bool BatchNormBackward(Arguments args, Outputs& outputs) {
  const at::Tensor& grad = args[0].toTensor();
  const at::Tensor& x = args[1].toTensor();
  if (!SameTypeIfGiven(x, args[2]) || x.dim() < 2) return false;
  if (!IsContiguous(x) || !IsContiguous(grad)) return false;
  const auto mask = args[9].toBoolList();
  const OutputMeta channel = Contiguous({x.sym_size(1)}, StatisticsType(x));
  outputs.push_back(mask[0] ? ContiguousLike(x) : Undefined());
  outputs.push_back(mask[1] ? channel : Undefined());
  outputs.push_back(mask[2] ? channel : Undefined());
  return true;
}

using enum ir::OpName;

constexpr ShapeRow kRows[] = {
    {kNativeLayerNorm, LayerNorm},
    {kNativeLayerNormBackward, LayerNormBackward},
    {kNativeGroupNorm, GroupNorm},
    {kNativeGroupNormBackward, GroupNormBackward},
    {kNativeBatchNorm, BatchNorm},
    {k_NativeBatchNormLegit, BatchNorm},
    {k_NativeBatchNormLegitNoStats, BatchNormNoStatistics},
    {kNativeBatchNormBackward, BatchNormBackward},
};

}  // namespace

c10::ArrayRef<ShapeRow> NormalizationShapes() { return kRows; }

}  // namespace framefuse::tracing
