// Elementwise operators: output geometry as TensorIterator computes it, dtype by family.
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

constexpr ShapeRow kRows[] = {
    {"aten::relu", NumberUnary},
    {"aten::neg", NumberUnary},
    {"aten::sign", NumberUnary},
    {"aten::abs", Absolute},
    {"aten::square", FloatUnary},
    {"aten::floor", FloatUnary},
    {"aten::ceil", FloatUnary},
    {"aten::round", FloatUnary},
    {"aten::trunc", FloatUnary},
    {"aten::exp", FloatUnary},
    {"aten::exp2", FloatUnary},
    {"aten::expm1", FloatUnary},
    {"aten::log", FloatUnary},
    {"aten::log2", FloatUnary},
    {"aten::log10", FloatUnary},
    {"aten::log1p", FloatUnary},
    {"aten::sqrt", FloatUnary},
    {"aten::rsqrt", FloatUnary},
    {"aten::reciprocal", FloatUnary},
    {"aten::sin", FloatUnary},
    {"aten::cos", FloatUnary},
    {"aten::tan", FloatUnary},
    {"aten::tanh", FloatUnary},
    {"aten::sigmoid", FloatUnary},
    {"aten::erf", FloatUnary},
    {"aten::erfc", FloatUnary},
    {"aten::gelu", FloatUnary},
    {"aten::silu", FloatUnary},
    {"aten::mish", FloatUnary},
    {"aten::elu", FloatUnary},
    {"aten::leaky_relu", FloatUnary},
    {"aten::hardtanh", FloatLike},
    {"aten::hardswish", FloatUnary},
    {"aten::hardsigmoid", FloatUnary},
    {"aten::softplus", FloatUnary},
    {"aten::logical_not", BoolUnary},
    {"aten::isnan", BoolUnary},
    {"aten::add.Tensor", Promoting<0, 1>},
    {"aten::sub.Tensor", Subtraction<Promoting<0, 1>>},
    {"aten::mul.Tensor", Promoting<0, 1>},
    {"aten::maximum", Promoting<0, 1>},
    {"aten::minimum", Promoting<0, 1>},
    {"aten::div.Tensor", FloatPromoting<0, 1>},
    {"aten::div.Tensor_mode", DivMode},
    {"aten::atan2", FloatPromoting<0, 1>},
    {"aten::pow.Tensor_Tensor", FloatPromoting<0, 1>},
    {"aten::fmod.Tensor", FloatPromoting<0, 1>},
    {"aten::floor_divide", Promoting<0, 1>},
    {"aten::complex", ComplexBinary},
    {"aten::polar", ComplexBinary},
    {"aten::remainder.Tensor", FloatPromoting<0, 1>},
    {"aten::addcmul", FloatPromoting<0, 1, 2>},
    {"aten::addcdiv", FloatPromoting<0, 1, 2>},
    {"aten::lerp.Scalar", FloatPromoting<0, 1>},
    {"aten::lerp.Tensor", FloatPromoting<0, 1, 2>},
    {"aten::rsub.Tensor", Subtraction<Promoting<1, 0>>},
    {"aten::logit", FloatUnary},
    {"aten::nan_to_num", FloatLike},
    {"aten::_prelu_kernel", PreluKernel},
    {"aten::binary_cross_entropy", BinaryCrossEntropy},
    {"aten::binary_cross_entropy_backward", BinaryCrossEntropyBackward},
    {"aten::eq.Tensor", Comparison},
    {"aten::ne.Tensor", Comparison},
    {"aten::lt.Tensor", Comparison},
    {"aten::le.Tensor", Comparison},
    {"aten::gt.Tensor", Comparison},
    {"aten::ge.Tensor", Comparison},
    {"aten::eq.Scalar", ComparisonWithNumber},
    {"aten::ne.Scalar", ComparisonWithNumber},
    {"aten::lt.Scalar", ComparisonWithNumber},
    {"aten::le.Scalar", ComparisonWithNumber},
    {"aten::gt.Scalar", ComparisonWithNumber},
    {"aten::ge.Scalar", ComparisonWithNumber},
    {"aten::log_sigmoid_forward", LogSigmoid},
    {"aten::huber_loss", HuberLoss},
    {"aten::mse_loss_backward", MseLossBackward},
    {"aten::huber_loss_backward", MeanLossBackward},
    {"aten::smooth_l1_loss_backward", MeanLossBackward},
    {"aten::_prelu_kernel_backward", PreluKernelBackward},
    {"aten::log_sigmoid_backward", LogSigmoidBackward},
    {"aten::glu_backward", GluBackward},
    {"aten::mish_backward", FloatPromoting<0, 1>},
    {"aten::logical_and", LogicalBinary},
    {"aten::logical_or", LogicalBinary},
    {"aten::logical_xor", LogicalBinary},
    {"aten::bitwise_and.Tensor", BitwiseBinary},
    {"aten::bitwise_or.Tensor", BitwiseBinary},
    {"aten::bitwise_xor.Tensor", BitwiseBinary},
    {"aten::where.self", Where},
    {"aten::add.Scalar", FloatWithOperand},
    {"aten::sub.Scalar", Subtraction<FloatWithOperand>},
    {"aten::mul.Scalar", FloatWithOperand},
    {"aten::div.Scalar", FloatWithOperand},
    {"aten::rsub.Scalar", Subtraction<FloatWithOperand>},
    {"aten::pow.Tensor_Scalar", FloatWithNumbers},
    {"aten::clamp", FloatWithNumbers},
    {"aten::clamp_min", FloatWithNumbers},
    {"aten::clamp_max", FloatWithNumbers},
    {"aten::masked_fill.Scalar", MaskedFill},
    {"aten::masked_fill.Tensor", MaskedFill},
    {"aten::masked_scatter", MaskedScatter},
    {"aten::clone", Clone},
    {"aten::_to_copy", ToCopy},
    {"aten::copy", CopyInto},
    {"aten::fill.Tensor", FillWithTensor},
    {"aten::native_dropout", NativeDropout},
    {"aten::native_dropout_backward", FloatPromoting<0>},
    {"aten::threshold_backward", FloatPromoting<1, 0>},
    {"aten::gelu_backward", FloatPromoting<0, 1>},
    {"aten::hardswish_backward", FloatPromoting<0, 1>},
    {"aten::silu_backward", FloatPromoting<0, 1>},
    {"aten::tanh_backward", FloatPromoting<0, 1>},
    {"aten::sigmoid_backward", FloatPromoting<0, 1>},
    {"aten::leaky_relu_backward", FloatPromoting<1, 0>},
};

}  // namespace

c10::ArrayRef<ShapeRow> PointwiseShapes() { return kRows; }

}  // namespace framefuse::tracing
