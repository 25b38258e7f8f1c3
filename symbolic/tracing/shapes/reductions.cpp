// Reductions, softmax and scans: contiguous outputs.
#include <bitset>

#include <ATen/core/Reduction.h>

#include "backends/graph/operators.h"
#include "symbolic/tracing/shapes/shapes.h"

namespace framefuse::tracing {
namespace {

using DimSet = std::bitset<64>;

// None or an empty list means all dimensions.
bool ReadDims(const c10::IValue& v, std::int64_t rank, DimSet* dims) {
  dims->reset();
  if (v.isNone()) {
    dims->set();
    return true;
  }
  if (v.isInt()) {
    auto d = WrapDim(v.toInt(), rank);
    if (!d) return false;
    dims->set(static_cast<std::size_t>(*d));
    return true;
  }
  auto list = v.toDimVector();
  if (list.empty()) dims->set();
  for (std::int64_t raw : list) {
    auto d = WrapDim(raw, rank);
    if (!d || dims->test(static_cast<std::size_t>(*d))) return false;
    dims->set(static_cast<std::size_t>(*d));
  }
  return true;
}

Dims Reduced(const at::Tensor& x, const DimSet& dims, bool keep) {
  Dims sizes;
  auto old = x.sym_sizes();
  for (std::size_t i = 0; i < old.size(); ++i) {
    if (!dims.test(i)) {
      sizes.push_back(old[i]);
    } else if (keep) {
      sizes.emplace_back(1);
    }
  }
  return sizes;
}

bool Emit(const at::Tensor& x, const c10::IValue& dims, bool keep, c10::ScalarType dtype, Outputs& outputs) {
  DimSet set;
  if (x.dim() > 60 || !ReadDims(dims, x.dim(), &set)) return false;
  outputs.assign(1, Contiguous(Reduced(x, set, keep), dtype));
  return true;
}

c10::ScalarType SumType(const at::Tensor& x, const c10::IValue& dtype) {
  if (!dtype.isNone()) return dtype.toScalarType();
  return c10::isIntegralType(x.scalar_type(), /*includeBool=*/true) ? c10::ScalarType::Long : x.scalar_type();
}

bool SumDims(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  return Emit(x, args[1], args[2].toBool(), SumType(x, args[3]), outputs);
}

// (self, dim, keepdim, dtype), of numbers that are no bools
bool ProdDim(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  return x.scalar_type() != c10::ScalarType::Bool && SumDims(args, outputs);
}

// (self, dim)
bool CountNonzero(Arguments args, Outputs& outputs) {
  return Emit(args[0].toTensor(), args[1], false, c10::ScalarType::Long, outputs);
}

bool Trace(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  return x.dim() == 2 && Emit(x, c10::IValue(), false, SumType(x, c10::IValue()), outputs);
}

bool SumAll(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  return Emit(x, c10::IValue(), false, SumType(x, args[1]), outputs);
}

bool IsFloat(const at::Tensor& x) { return c10::isFloatingType(x.scalar_type()); }

bool MeanDims(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  return IsFloat(x) && args[3].isNone() && Emit(x, args[1], args[2].toBool(), x.scalar_type(), outputs);
}

bool MeanAll(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  return IsFloat(x) && args[1].isNone() && Emit(x, c10::IValue(), false, x.scalar_type(), outputs);
}

bool IsEmpty(const at::Tensor& x) { return x.sym_numel() == 0; }

// amax, amin: undefined on an empty reduction.
bool ExtremumDims(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  return !IsEmpty(x) && Emit(x, args[1], args[2].toBool(), x.scalar_type(), outputs);
}

bool ExtremumAll(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  return !IsEmpty(x) && Emit(x, c10::IValue(), false, x.scalar_type(), outputs);
}

// max.dim, min.dim: values and indices.
bool ExtremumWithIndices(Arguments args, Outputs& outputs) {
  if (!ExtremumDims(args, outputs)) return false;
  OutputMeta indices = outputs[0];
  indices.dtype = c10::ScalarType::Long;
  outputs.push_back(std::move(indices));
  return true;
}

bool ArgExtremum(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  return !IsEmpty(x) && Emit(x, args[1], args[2].toBool(), c10::ScalarType::Long, outputs);
}

bool AnyOrAll(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const c10::ScalarType dtype =
      x.scalar_type() == c10::ScalarType::Byte ? c10::ScalarType::Byte : c10::ScalarType::Bool;
  return Emit(x, c10::IValue(), false, dtype, outputs);
}

// var.correction, std.correction (self, dim, *, correction, keepdim)
bool Variance(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  return IsFloat(x) && Emit(x, args[1], args[3].toBool(), x.scalar_type(), outputs);
}

bool VarianceAndMean(Arguments args, Outputs& outputs) {
  if (!Variance(args, outputs)) return false;
  OutputMeta mean = outputs[0];
  outputs.push_back(std::move(mean));
  return true;
}

bool LogSumExp(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  return IsFloat(x) && Emit(x, args[1], args[2].toBool(), x.scalar_type(), outputs);
}

// linalg_vector_norm(self, ord, dim, keepdim, dtype)
bool VectorNorm(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  if (!IsFloat(x) || IsEmpty(x) || !args[4].isNone()) return false;
  return Emit(x, args[2], args[3].toBool(), x.scalar_type(), outputs);
}

bool Softmax(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  if (!IsFloat(x) || args[2].toBool() || !WrapDim(args[1].toInt(), x.dim())) return false;
  outputs.assign(1, ContiguousLike(x));
  return true;
}

// (self, dim, dtype): a row of -inf gives zeros.
bool SafeSoftmax(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const bool converts = !args[2].isNone() && args[2].toScalarType() != x.scalar_type();
  if (!IsFloat(x) || converts || !WrapDim(args[1].toInt(), x.dim()) || !IsContiguous(x)) return false;
  outputs.assign(1, ContiguousLike(x));
  return true;
}

// (grad_output, output, dim, input_dtype)
bool SoftmaxBackward(Arguments args, Outputs& outputs) {
  const at::Tensor& grad = args[0].toTensor();
  if (grad.scalar_type() != args[3].toScalarType()) return false;
  outputs.assign(1, ContiguousLike(grad));
  return true;
}

bool Cumulative(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  if (!WrapDim(args[1].toInt(), x.dim())) return false;
  outputs.assign(1, Contiguous(ToDims(x.sym_sizes()), SumType(x, args[2])));
  return true;
}

// (self, target, weight, reduction, ignore_index), of images
bool ImageLoss(Arguments args, Outputs& outputs) {
  const at::Tensor &x = args[0].toTensor(), &target = args[1].toTensor();
  if (x.dim() != 4 || target.dim() != 3 || !args[3].isInt() || OptionalTensor(args[2]) != nullptr) return false;
  if (!c10::isFloatingType(x.scalar_type()) || target.scalar_type() != at::kLong || x.is_cuda()) return false;
  const bool fits =
      x.sym_size(0) == target.sym_size(0) && x.sym_size(2) == target.sym_size(1) && x.sym_size(3) == target.sym_size(2);
  if (!fits || x.sym_numel() == 0) return false;
  const bool each = args[3].toInt() == at::Reduction::None;
  outputs.assign(1, Contiguous(each ? ToDims(target.sym_sizes()) : Dims(), x.scalar_type()));
  outputs.push_back(Contiguous({}, x.scalar_type()));
  return true;
}

// (grad_output, self, target, …)
bool ImageLossBackward(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[1].toTensor();
  if (x.dim() != 4 || x.is_cuda() || !IsContiguous(x)) return false;
  outputs.assign(1, ContiguousLike(x));
  return true;
}

using enum ir::OpName;

constexpr ShapeRow kRows[] = {
    {kNllLoss2dForward, ImageLoss},
    {kNllLoss2dBackward, ImageLossBackward},
    {kSumDimIntList, SumDims},
    {kSum, SumAll},
    {kNansum, SumDims},
    {kProd, SumAll},
    {kProdDimInt, ProdDim},
    {kCountNonzeroDimIntList, CountNonzero},
    {kTrace, Trace},
    {kMeanDim, MeanDims},
    {kMean, MeanAll},
    {kAmax, ExtremumDims},
    {kAmin, ExtremumDims},
    {kMax, ExtremumAll},
    {kMin, ExtremumAll},
    {kMaxDim, ExtremumWithIndices},
    {kMinDim, ExtremumWithIndices},
    {kArgmax, ArgExtremum},
    {kArgmin, ArgExtremum},
    {kAny, AnyOrAll},
    {kAll, AnyOrAll},
    {kVarCorrection, Variance},
    {kStdCorrection, Variance},
    {kVarMeanCorrection, VarianceAndMean},
    {kStdMeanCorrection, VarianceAndMean},
    {kLogsumexp, LogSumExp},
    {kLinalgVectorNorm, VectorNorm},
    {k_Softmax, Softmax},
    {k_LogSoftmax, Softmax},
    {k_SafeSoftmax, SafeSoftmax},
    {k_SoftmaxBackwardData, SoftmaxBackward},
    {k_LogSoftmaxBackwardData, SoftmaxBackward},
    {kCumsum, Cumulative},
    {kCumprod, Cumulative},
};

}  // namespace

c10::ArrayRef<ShapeRow> ReductionShapes() { return kRows; }

}  // namespace framefuse::tracing
