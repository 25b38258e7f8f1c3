// Elementwise operators: output geometry as TensorIterator computes it, dtype by family.
#include "backends/graph/operators.h"
#include "symbolic/tracing/shapes/shapes.h"

#include <ATen/core/Reduction.h>

namespace framefuse::tracing {
namespace {

const at::Tensor& TensorAt(Arguments args, int i) { return args[static_cast<std::size_t>(i)].toTensor(); }

bool IsFloat(const at::Tensor& t) { return c10::isFloatingType(t.scalar_type()); }

bool IsRealNumber(const c10::IValue& v) {
  return v.isInt() || v.isSymInt() || v.isDouble() || v.isSymFloat() || v.isBool() || v.isNone();
}

// One operand of a floating type, output of the same type. Numbers among the other arguments must be real.
bool FloatUnary(Arguments args, Outputs& outputs) {
  const at::Tensor* x = &TensorAt(args, 0);
  if (!IsFloat(*x)) return false;
  for (const c10::IValue& v : args.slice(1)) {
    if (v.isTensor() || v.isComplexDouble()) return false;
  }
  outputs.resize(1);
  return IteratorOutput(x, x->scalar_type(), &outputs[0]);
}

// As FloatUnary, and for integers too (never bool, whose rules differ op by op).
bool NumberUnary(Arguments args, Outputs& outputs) {
  const at::Tensor* x = &TensorAt(args, 0);
  if (!IsFloat(*x) && !c10::isIntegralType(x->scalar_type(), /*includeBool=*/false)) return false;
  outputs.resize(1);
  return IteratorOutput(x, x->scalar_type(), &outputs[0]);
}

bool Absolute(Arguments args, Outputs& outputs) {
  const at::Tensor* x = &TensorAt(args, 0);
  if (!x->is_complex()) return NumberUnary(args, outputs);
  outputs.resize(1);
  return IteratorOutput(x, c10::toRealValueType(x->scalar_type()), &outputs[0]);
}

bool BoolUnary(Arguments args, Outputs& outputs) {
  const at::Tensor* x = &TensorAt(args, 0);
  outputs.resize(1);
  return IteratorOutput(x, c10::ScalarType::Bool, &outputs[0]);
}

// Operands A, B … in TensorIterator's order; the common type must be floating.
template <int... kOperands>
bool FloatPromoting(Arguments args, Outputs& outputs) {
  const at::Tensor* operands[] = {&TensorAt(args, kOperands)...};
  const c10::ScalarType dtype = PromotedType(operands);
  if (!c10::isFloatingType(dtype)) return false;
  outputs.resize(1);
  return IteratorOutput(operands, dtype, &outputs[0], dtype);
}

// add, mul …: any real type but bool; alpha must be a number that the type can hold.
template <int... kOperands>
bool Promoting(Arguments args, Outputs& outputs) {
  const at::Tensor* operands[] = {&TensorAt(args, kOperands)...};
  const c10::ScalarType dtype = PromotedType(operands);
  if (dtype == c10::ScalarType::Bool || c10::isComplexType(dtype)) return false;
  for (const c10::IValue& v : args.slice(sizeof...(kOperands))) {
    if (v.isInt() || v.isSymInt() || v.isString() || v.isNone()) continue;
    if ((!v.isDouble() && !v.isSymFloat()) || !c10::isFloatingType(dtype)) return false;
  }
  outputs.resize(1);
  return IteratorOutput(operands, dtype, &outputs[0], dtype);
}

// torch refuses to subtract bools, whatever they would be promoted to.
bool IsBool(const c10::IValue& v) {
  return v.isBool() || (v.isTensor() && v.toTensor().scalar_type() == c10::ScalarType::Bool);
}

template <ShapeFn other>
bool Subtraction(Arguments args, Outputs& outputs) {
  return !IsBool(args[0]) && !IsBool(args[1]) && other(args, outputs);
}

bool Comparison(Arguments args, Outputs& outputs) {
  const at::Tensor* operands[] = {&TensorAt(args, 0), &TensorAt(args, 1)};
  outputs.resize(1);
  return IteratorOutput(operands, c10::ScalarType::Bool, &outputs[0], PromotedType(operands));
}

// The CPU's kernel writes both results row by row, whatever the strides are.
bool LogSigmoid(Arguments args, Outputs& outputs) {
  const at::Tensor& x = TensorAt(args, 0);
  if (!IsFloat(x) || !x.device().is_cpu()) return false;
  outputs.assign(2, ContiguousLike(x));
  return true;
}

// These write into empty_like of their input.
bool FloatLike(Arguments args, Outputs& outputs) {
  const at::Tensor& x = TensorAt(args, 0);
  if (!IsFloat(x)) return false;
  outputs.assign(1, LikeTensor(x, x.scalar_type()));
  return true;
}

// (self, weight, …): the CPU's kernels write into empty_like of the first.
bool PreluKernel(Arguments args, Outputs& outputs) {
  const at::Tensor &x = TensorAt(args, 0), &weight = TensorAt(args, 1);
  if (!x.device().is_cpu() || x.scalar_type() != weight.scalar_type() || x.dim() != weight.dim()) return false;
  Dims sizes;
  if (!Broadcast(x.sym_sizes(), weight.sym_sizes(), &sizes)) return false;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != x.sym_size(static_cast<std::int64_t>(d))) return false;
  }
  return FloatLike(args, outputs);
}

// (grad_output, self, weight): two results, laid out as all operands together.
bool PreluKernelBackward(Arguments args, Outputs& outputs) {
  const at::Tensor *grad = &TensorAt(args, 0), *x = &TensorAt(args, 1), *weight = &TensorAt(args, 2);
  if (!x->device().is_cpu() || !IsFloat(*x) || x->scalar_type() != weight->scalar_type()) return false;
  if (x->scalar_type() != grad->scalar_type()) return false;
  const at::Tensor* operands[] = {x, weight, grad};
  outputs.resize(1);
  if (!IteratorOutput(operands, x->scalar_type(), &outputs[0])) return false;
  outputs.push_back(outputs[0]);
  return true;
}

// (grad_output, self, dim)
bool GluBackward(Arguments args, Outputs& outputs) {
  const at::Tensor &grad = TensorAt(args, 0), &x = TensorAt(args, 1);
  if (!x.device().is_cpu() || !IsFloat(x) || grad.scalar_type() != x.scalar_type()) return false;
  outputs.assign(1, ContiguousLike(x));
  return true;
}

// (grad_output, self, buffer)
bool LogSigmoidBackward(Arguments args, Outputs& outputs) {
  const at::Tensor &grad = TensorAt(args, 0), &x = TensorAt(args, 1);
  if (!x.device().is_cpu() || grad.sym_sizes() != x.sym_sizes() || grad.scalar_type() != x.scalar_type()) return false;
  return FloatLike(args, outputs);
}

// (self, target, weight, reduction)
bool BinaryCrossEntropy(Arguments args, Outputs& outputs) {
  const at::Tensor &x = TensorAt(args, 0), &target = TensorAt(args, 1);
  if (!x.device().is_cpu() || !IsFloat(x) || x.scalar_type() != target.scalar_type() || !args[3].isInt()) return false;
  if (x.sym_sizes() != target.sym_sizes() || !IsContiguous(x) || OptionalTensor(args[2]) != nullptr) return false;
  const bool each = args[3].toInt() == at::Reduction::None;
  outputs.assign(1, each ? ContiguousLike(x) : Contiguous({}, x.scalar_type()));
  return true;
}

// (grad_output, self, target, weight, reduction)
bool BinaryCrossEntropyBackward(Arguments args, Outputs& outputs) {
  const at::Tensor &x = TensorAt(args, 1), &target = TensorAt(args, 2);
  if (!x.device().is_cpu() || !IsFloat(x) || x.scalar_type() != target.scalar_type()) return false;
  if (x.sym_sizes() != target.sym_sizes() || !IsContiguous(x) || OptionalTensor(args[3]) != nullptr) return false;
  outputs.assign(1, ContiguousLike(x));
  return true;
}

bool HuberLoss(Arguments args, Outputs& outputs) {
  const at::Tensor &x = TensorAt(args, 0), &target = TensorAt(args, 1);
  if (!args[2].isInt() || !args[3].isDouble() || !(args[3].toDouble() > 0)) return false;
  if (!IsFloat(x) || x.scalar_type() != target.scalar_type() || x.sym_sizes() != target.sym_sizes()) return false;
  if (args[2].toInt() == at::Reduction::None) return FloatLike(args, outputs);
  outputs.assign(1, Contiguous({}, x.scalar_type()));
  return x.sym_numel() != 0;
}

// Written row by row into zeros of its first operand's type, whatever the operands would be promoted to.
bool MseLossBackward(Arguments args, Outputs& outputs) {
  const at::Tensor &x = TensorAt(args, 1), &target = TensorAt(args, 2);
  if (x.sym_sizes() != target.sym_sizes()) return false;
  outputs.assign(1, ContiguousLike(x));
  return true;
}

// The same, but torch's own code divides by the number of elements.
bool MeanLossBackward(Arguments args, Outputs& outputs) {
  return MseLossBackward(args, outputs) && TensorAt(args, 1).sym_numel() != 0;
}

// (real, imaginary), (length, angle): of one floating type.
bool ComplexBinary(Arguments args, Outputs& outputs) {
  const at::Tensor* operands[] = {&TensorAt(args, 0), &TensorAt(args, 1)};
  if (!IsFloat(*operands[0]) || operands[0]->scalar_type() != operands[1]->scalar_type()) return false;
  outputs.resize(1);
  return IteratorOutput(operands, c10::toComplexType(operands[0]->scalar_type()), &outputs[0]);
}

bool LogicalBinary(Arguments args, Outputs& outputs) { return Comparison(args, outputs); }

bool BitwiseBinary(Arguments args, Outputs& outputs) {
  const at::Tensor* operands[] = {&TensorAt(args, 0), &TensorAt(args, 1)};
  const c10::ScalarType dtype = PromotedType(operands);
  if (!c10::isIntegralType(dtype, /*includeBool=*/true)) return false;
  outputs.resize(1);
  return IteratorOutput(operands, dtype, &outputs[0], dtype);
}

bool DivMode(Arguments args, Outputs& outputs) {
  const at::Tensor* operands[] = {&TensorAt(args, 0), &TensorAt(args, 1)};
  const c10::ScalarType dtype = PromotedType(operands);
  if (dtype == c10::ScalarType::Bool || c10::isComplexType(dtype)) return false;
  if (!c10::isFloatingType(dtype) && args[2].isNone()) return false;
  outputs.resize(1);
  return IteratorOutput(operands, dtype, &outputs[0], dtype);
}

bool Where(Arguments args, Outputs& outputs) {
  const at::Tensor* values[] = {&TensorAt(args, 1), &TensorAt(args, 2)};
  const at::Tensor& condition = TensorAt(args, 0);
  if (condition.scalar_type() != c10::ScalarType::Bool) return false;
  // where() casts both to the common type first; a cast copy keeps strides only if the source is dense.
  const c10::ScalarType dtype = PromotedType(values);
  for (const at::Tensor* v : values) {
    if (v->scalar_type() != dtype && !IsNonOverlappingAndDense(*v)) return false;
  }
  const at::Tensor* operands[] = {&condition, values[0], values[1]};
  outputs.resize(1);
  return IteratorOutput(operands, dtype, &outputs[0]);
}

// A tensor and numbers: mul.Scalar, clamp, pow.Tensor_Scalar.
template <bool made_operand>
bool FloatWith(Arguments args, Outputs& outputs) {
  const at::Tensor* x = &TensorAt(args, 0);
  if (!IsFloat(*x) && (!made_operand || !x->is_complex() || x->is_conj())) return false;
  for (const c10::IValue& v : args.slice(1)) {
    if (!IsRealNumber(v)) return false;
  }
  outputs.resize(1);
  return IteratorOutput(x, x->scalar_type(), &outputs[0], c10::ScalarType::Undefined, made_operand);
}
constexpr ShapeFn FloatWithNumbers = FloatWith<false>, FloatWithOperand = FloatWith<true>;

bool ComparisonWithNumber(Arguments args, Outputs& outputs) {
  if (!IsRealNumber(args[1])) return false;
  const at::Tensor* x = &TensorAt(args, 0);
  outputs.resize(1);
  return IteratorOutput(x, c10::ScalarType::Bool, &outputs[0], c10::ScalarType::Undefined, /*beside_number=*/true);
}

// masked_fill clones the broadcast self contiguously.
bool MaskedFill(Arguments args, Outputs& outputs) {
  const at::Tensor& self = TensorAt(args, 0);
  const at::Tensor& mask = TensorAt(args, 1);
  if (mask.scalar_type() != c10::ScalarType::Bool || !IsFloat(self)) return false;
  if (args[2].isTensor() ? TensorAt(args, 2).dim() != 0 : !IsRealNumber(args[2])) return false;
  Dims sizes;
  if (!Broadcast(self.sym_sizes(), mask.sym_sizes(), &sizes)) return false;
  outputs.assign(1, Contiguous(std::move(sizes), self.scalar_type()));
  return true;
}

// (self, mask, source)
bool MaskedScatter(Arguments args, Outputs& outputs) {
  const at::Tensor &self = TensorAt(args, 0), &mask = TensorAt(args, 1);
  if (mask.scalar_type() != c10::ScalarType::Bool || self.scalar_type() != TensorAt(args, 2).scalar_type())
    return false;
  Dims sizes;
  if (!Broadcast(self.sym_sizes(), mask.sym_sizes(), &sizes)) return false;
  outputs.assign(1, Contiguous(std::move(sizes), self.scalar_type()));
  return true;
}

c10::MemoryFormat FormatOr(const c10::IValue& v, c10::MemoryFormat otherwise) {
  return v.isNone() ? otherwise : v.toMemoryFormat();
}

bool CopyWithFormat(const at::Tensor& t, c10::ScalarType dtype, c10::MemoryFormat format, Outputs& outputs) {
  if (!HasFormat(static_cast<std::size_t>(t.dim()), format)) return false;
  outputs.assign(1, format == c10::MemoryFormat::Preserve ? LikeTensor(t, dtype)
                                                          : WithFormat(ToDims(t.sym_sizes()), dtype, format));
  return true;
}

bool Clone(Arguments args, Outputs& outputs) {
  const at::Tensor& x = TensorAt(args, 0);
  return CopyWithFormat(x, x.scalar_type(), FormatOr(args[1], c10::MemoryFormat::Preserve), outputs);
}

bool ToCopy(Arguments args, Outputs& outputs) {
  const at::Tensor& x = TensorAt(args, 0);
  const c10::ScalarType dtype = args[1].isNone() ? x.scalar_type() : args[1].toScalarType();
  return CopyWithFormat(x, dtype, FormatOr(args[6], c10::MemoryFormat::Preserve), outputs);
}

// The functional form of copy_: only says whether src fits into self.
bool CopyInto(Arguments args, Outputs& outputs) {
  const at::Tensor& self = TensorAt(args, 0);
  Dims sizes;
  if (!Broadcast(self.sym_sizes(), TensorAt(args, 1).sym_sizes(), &sizes)) return false;
  outputs.assign(1, AliasOf(self, -1));
  outputs[0].sizes = std::move(sizes);
  return true;
}

bool FillWithTensor(Arguments args, Outputs& outputs) {
  if (TensorAt(args, 1).dim() != 0) return false;
  outputs.assign(1, LikeTensor(TensorAt(args, 0), TensorAt(args, 0).scalar_type()));
  return true;
}

bool NativeDropout(Arguments args, Outputs& outputs) {
  const at::Tensor& x = TensorAt(args, 0);
  if (!IsFloat(x) || !IsContiguous(x)) return false;
  outputs.assign(2, ContiguousLike(x));
  outputs[1].dtype = c10::ScalarType::Bool;
  return true;
}

using enum ir::OpName;

constexpr ShapeRow kRows[] = {
    {kRelu, NumberUnary},
    {kNeg, NumberUnary},
    {kSign, NumberUnary},
    {kAbs, Absolute},
    {kSquare, FloatUnary},
    {kFloor, FloatUnary},
    {kCeil, FloatUnary},
    {kRound, FloatUnary},
    {kTrunc, FloatUnary},
    {kExp, FloatUnary},
    {kExp2, FloatUnary},
    {kExpm1, FloatUnary},
    {kLog, FloatUnary},
    {kLog2, FloatUnary},
    {kLog10, FloatUnary},
    {kLog1p, FloatUnary},
    {kSqrt, FloatUnary},
    {kRsqrt, FloatUnary},
    {kReciprocal, FloatUnary},
    {kSin, FloatUnary},
    {kCos, FloatUnary},
    {kTan, FloatUnary},
    {kTanh, FloatUnary},
    {kSigmoid, FloatUnary},
    {kErf, FloatUnary},
    {kErfc, FloatUnary},
    {kGelu, FloatUnary},
    {kSilu, FloatUnary},
    {kMish, FloatUnary},
    {kElu, FloatUnary},
    {kLeakyRelu, FloatUnary},
    {kHardtanh, FloatLike},
    {kHardswish, FloatUnary},
    {kHardsigmoid, FloatUnary},
    {kSoftplus, FloatUnary},
    {kLogicalNot, BoolUnary},
    {kIsnan, BoolUnary},
    {kAddTensor, Promoting<0, 1>},
    {kSubTensor, Subtraction<Promoting<0, 1>>},
    {kMulTensor, Promoting<0, 1>},
    {kMaximum, Promoting<0, 1>},
    {kMinimum, Promoting<0, 1>},
    {kDivTensor, FloatPromoting<0, 1>},
    {kDivTensorMode, DivMode},
    {kAtan2, FloatPromoting<0, 1>},
    {kPowTensorTensor, FloatPromoting<0, 1>},
    {kFmodTensor, FloatPromoting<0, 1>},
    {kFloorDivide, Promoting<0, 1>},
    {kComplex, ComplexBinary},
    {kPolar, ComplexBinary},
    {kRemainderTensor, FloatPromoting<0, 1>},
    {kAddcmul, FloatPromoting<0, 1, 2>},
    {kAddcdiv, FloatPromoting<0, 1, 2>},
    {kLerpScalar, FloatPromoting<0, 1>},
    {kLerpTensor, FloatPromoting<0, 1, 2>},
    {kRsubTensor, Subtraction<Promoting<1, 0>>},
    {kLogit, FloatUnary},
    {kNanToNum, FloatLike},
    {k_PreluKernel, PreluKernel},
    {kBinaryCrossEntropy, BinaryCrossEntropy},
    {kBinaryCrossEntropyBackward, BinaryCrossEntropyBackward},
    {kEqTensor, Comparison},
    {kNeTensor, Comparison},
    {kLtTensor, Comparison},
    {kLeTensor, Comparison},
    {kGtTensor, Comparison},
    {kGeTensor, Comparison},
    {kEqScalar, ComparisonWithNumber},
    {kNeScalar, ComparisonWithNumber},
    {kLtScalar, ComparisonWithNumber},
    {kLeScalar, ComparisonWithNumber},
    {kGtScalar, ComparisonWithNumber},
    {kGeScalar, ComparisonWithNumber},
    {kLogSigmoidForward, LogSigmoid},
    {kHuberLoss, HuberLoss},
    {kMseLossBackward, MseLossBackward},
    {kHuberLossBackward, MeanLossBackward},
    {kSmoothL1LossBackward, MeanLossBackward},
    {k_PreluKernelBackward, PreluKernelBackward},
    {kLogSigmoidBackward, LogSigmoidBackward},
    {kGluBackward, GluBackward},
    {kMishBackward, FloatPromoting<0, 1>},
    {kLogicalAnd, LogicalBinary},
    {kLogicalOr, LogicalBinary},
    {kLogicalXor, LogicalBinary},
    {kBitwiseAndTensor, BitwiseBinary},
    {kBitwiseOrTensor, BitwiseBinary},
    {kBitwiseXorTensor, BitwiseBinary},
    {kWhereSelf, Where},
    {kAddScalar, FloatWithOperand},
    {kSubScalar, Subtraction<FloatWithOperand>},
    {kMulScalar, FloatWithOperand},
    {kDivScalar, FloatWithOperand},
    {kRsubScalar, Subtraction<FloatWithOperand>},
    {kPowTensorScalar, FloatWithNumbers},
    {kClamp, FloatWithNumbers},
    {kClampMin, FloatWithNumbers},
    {kClampMax, FloatWithNumbers},
    {kMaskedFillScalar, MaskedFill},
    {kMaskedFillTensor, MaskedFill},
    {kMaskedScatter, MaskedScatter},
    {kClone, Clone},
    {k_ToCopy, ToCopy},
    {kCopy, CopyInto},
    {kFillTensor, FillWithTensor},
    {kNativeDropout, NativeDropout},
    {kNativeDropoutBackward, FloatPromoting<0>},
    {kThresholdBackward, FloatPromoting<1, 0>},
    {kGeluBackward, FloatPromoting<0, 1>},
    {kHardswishBackward, FloatPromoting<0, 1>},
    {kSiluBackward, FloatPromoting<0, 1>},
    {kTanhBackward, FloatPromoting<0, 1>},
    {kSigmoidBackward, FloatPromoting<0, 1>},
    {kLeakyReluBackward, FloatPromoting<1, 0>},
};

}  // namespace

c10::ArrayRef<ShapeRow> PointwiseShapes() { return kRows; }

}  // namespace framefuse::tracing
