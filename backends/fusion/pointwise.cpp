#include "backends/fusion/pointwise.h"

#include <ATen/core/ivalue.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/fusion/pointwise_table.h"
#include "backends/graph/operators.h"

namespace framefuse::fusion {

using kernel_ir::DType;
using kernel_ir::kNoValue;
using kernel_ir::Op;
using kernel_ir::Type;

std::optional<DType> StorageOf(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Bool:
      return DType::kBool;
    case c10::ScalarType::Byte:
      return DType::kU8;
    case c10::ScalarType::Char:
      return DType::kI8;
    case c10::ScalarType::Short:
      return DType::kI16;
    case c10::ScalarType::Int:
      return DType::kI32;
    case c10::ScalarType::Long:
      return DType::kI64;
    case c10::ScalarType::Half:
      return DType::kF16;
    case c10::ScalarType::BFloat16:
      return DType::kBF16;
    case c10::ScalarType::Float:
      return DType::kF32;
    case c10::ScalarType::Double:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

std::optional<c10::Scalar> NumberConstant(const ir::Graph& graph, ir::ValueId v) {
  const ir::Value& value = graph.value(v);
  if (!value.sizes.empty() || !value.device.is_cpu() || !StorageOf(value.dtype)) return std::nullopt;
  for (const ir::ConstantTensor& c : graph.constants) {
    if (c.value == v && c.tensor.layout() == c10::Layout::Strided) return c.tensor.item();
  }
  return std::nullopt;
}

namespace {

template <typename T>
bool InRangeOf(double number) {
  return number >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
         number <= static_cast<double>(std::numeric_limits<T>::max());
}

bool FitsInFloat(double number, DType type) {
  if (!std::isfinite(number)) return true;
  if (type == DType::kF16) return InRangeOf<c10::Half>(number);
  if (type == DType::kBF16) return InRangeOf<c10::BFloat16>(number);
  return type == DType::kF64 || InRangeOf<float>(number);
}

}  // namespace

bool FitsIn(const c10::Scalar& number, DType type) {
  if (number.isComplex()) return false;
  if (number.isBoolean() || type == DType::kBool) return true;
  if (type == DType::kF16 || type == DType::kBF16 || type == DType::kF32 || type == DType::kF64) {
    return FitsInFloat(number.toDouble(), type);
  }
  switch (type) {
    case DType::kU8:
      return InRangeOf<std::uint8_t>(number.toDouble());
    case DType::kI8:
      return InRangeOf<std::int8_t>(number.toDouble());
    case DType::kI16:
      return InRangeOf<std::int16_t>(number.toDouble());
    case DType::kI32:
      return InRangeOf<std::int32_t>(number.toDouble());
    case DType::kBool:
    case DType::kI64:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
    case DType::kF64:
      break;
  }
  return number.isIntegral(false) || (InRangeOf<std::int64_t>(number.toDouble()) && number.toDouble() < 0x1p63);
}

kernel_ir::ValueId EmitNumber(kernel_ir::Builder& builder, const ir::Graph& graph, ir::ValueId v) {
  const c10::Scalar number = *NumberConstant(graph, v);
  const Type type = ComputeType(*StorageOf(graph.value(v).dtype));
  if (kernel_ir::IsFloat(type)) return builder.Const(type, number.toDouble());
  return builder.ConstInt(type, type == Type::kPred ? (number.toBool() ? 1 : 0) : number.toLong());
}

PointwiseEmitter::PointwiseEmitter(const ir::Graph& graph, const ir::Node& node, kernel_ir::Builder* builder,
                                   std::vector<kernel_ir::ValueId> tensors, std::vector<kernel_ir::ValueId> numbers)
    : graph_(graph), node_(node), builder_(*builder), tensors_(std::move(tensors)), numbers_(std::move(numbers)) {
  storage_ = *StorageOf(graph.value(node.outputs[0]).dtype);
  type_ = ComputeType(storage_);
}

kernel_ir::ValueId PointwiseEmitter::Emit() {
  const PointwiseRow row = FindPointwiseRow(node_.op);
  if (row == nullptr || !NumbersFit()) return kNoValue;
  const kernel_ir::ValueId result = row(*this);
  if (result == kNoValue) return kNoValue;
  const kernel_ir::ValueId typed = builder_.Cast(type_, result);
  // Small integers live in 32-bit lanes; what leaves an operator has its own width.
  if (storage_ == DType::kU8 || storage_ == DType::kI8 || storage_ == DType::kI16) {
    return builder_.Emit(Op::kWrap, type_, {typed}, -1, static_cast<std::uint64_t>(storage_));
  }
  return typed;
}

namespace {
DType OfComparison(DType type) { return kernel_ir::IsFloat(ComputeType(type)) ? type : DType::kF32; }
}  // namespace

namespace {
// Whatever the symbolic number is: a float that is an operand is in the range of bfloat16 (tracing::Sizes::AsOperand).
bool FitsAlways(ir::NumberType number, DType type) {
  const bool wide = type == DType::kF64 || type == DType::kF32 || type == DType::kBF16;
  return wide || (type == DType::kI64 && number == ir::NumberType::kInt);
}
}  // namespace

// Eager converts a number to the type that it computes in, and raises or wraps where there is no such value: the
// operator itself knows which.
bool PointwiseEmitter::NumbersFit() const {
  DType computed = storage_;
  const bool compares = computed == DType::kBool;
  for (std::size_t a = 0; a < node_.args.size() && computed == DType::kBool; ++a) {  // comparisons
    if (node_.args[a].kind == ir::Arg::Kind::kValue) computed = StorageOfTensor(a);
  }
  return std::all_of(node_.args.begin(), node_.args.end(), [&](const ir::Arg& arg) {
    std::optional<c10::Scalar> number;
    if (arg.kind == ir::Arg::Kind::kDim) return FitsAlways(graph_.exprs.TypeOf(arg.dims[0]), computed);
    if (arg.kind == ir::Arg::Kind::kConstant && arg.constant.isScalar()) number = arg.constant.toScalar();
    if (arg.kind == ir::Arg::Kind::kValue) number = NumberConstant(graph_, arg.value);
    if (!number) return true;
    static constexpr ir::OpNames kClamps{ir::OpName::kClamp, ir::OpName::kClampTensor, ir::OpName::kClampMin,
                                         ir::OpName::kClampMax};
    // Torch's releases differ in what a bound that is no number does.
    const bool bounds = kClamps.contains(node_.op);
    if (bounds && number->isFloatingPoint() && std::isnan(number->toDouble())) return false;
    // Compared with integers a float makes floats of them, in the default type.
    return FitsIn(*number, compares && number->isFloatingPoint() ? OfComparison(computed) : computed);
  });
}

kernel_ir::ValueId PointwiseEmitter::One(Op op, kernel_ir::ValueId x) {
  const bool function = kernel_ir::ClassOf(op) == kernel_ir::OpClass::kMath;
  const std::uint64_t half = storage_ == DType::kBF16  ? kernel_ir::kToBFloat16
                             : storage_ == DType::kF16 ? kernel_ir::kToF16
                                                       : 0;
  return builder_.Emit(op, builder_.TypeOf(x), {x}, -1, function ? half : 0);
}

bool PointwiseEmitter::Has(std::size_t a) const {
  if (a >= node_.args.size()) return false;
  const ir::Arg& arg = node_.args[a];
  return arg.kind != ir::Arg::Kind::kNone && !(arg.kind == ir::Arg::Kind::kConstant && arg.constant.isNone());
}

std::optional<double> PointwiseEmitter::Number(std::size_t a) const {
  if (!Has(a) || node_.args[a].kind != ir::Arg::Kind::kConstant || !node_.args[a].constant.isScalar())
    return std::nullopt;
  const c10::Scalar s = node_.args[a].constant.toScalar();
  return s.isComplex() ? std::nullopt : std::optional<double>(s.toDouble());
}

std::string PointwiseEmitter::Text(std::size_t a) const {
  const bool text = Has(a) && node_.args[a].kind == ir::Arg::Kind::kConstant && node_.args[a].constant.isString();
  return text ? node_.args[a].constant.toStringRef() : std::string();
}

std::optional<DType> PointwiseEmitter::UnroundedHalf(std::size_t a) const {
  const DType storage = StorageOfTensor(a);
  const bool half = storage == DType::kF16 || storage == DType::kBF16;
  return half && !builder_.IsRounded(storage, tensors_[a]) ? std::optional(storage) : std::nullopt;
}

DType PointwiseEmitter::StorageOfTensor(std::size_t a) const {
  return *StorageOf(graph_.value(node_.args[a].value).dtype);
}

kernel_ir::ValueId PointwiseEmitter::Arg(std::size_t a) { return Arg(a, type_); }

kernel_ir::ValueId PointwiseEmitter::Arg(std::size_t a, Type as) {
  if (tensors_[a] != kNoValue) {
    const std::optional<DType> half = UnroundedHalf(a);
    if (!half || *half == storage_) return builder_.Cast(as, tensors_[a]);
    return builder_.Cast(as,
                         builder_.Emit(Op::kWrap, Type::kF32, {tensors_[a]}, -1, static_cast<std::uint64_t>(*half)));
  }
  if (numbers_[a] != kNoValue) return builder_.Cast(as, numbers_[a]);
  const c10::Scalar s = node_.args[a].constant.toScalar();
  if (kernel_ir::IsFloat(as)) return builder_.Const(as, s.toDouble());
  if (as == Type::kPred) return builder_.ConstInt(as, s.toBool() ? 1 : 0);
  return builder_.ConstInt(as, s.toLong());
}

// As at::result_type: tensors with dimensions, then 0-dim tensors, then Python numbers.
DType PointwiseEmitter::Promoted(std::size_t a, std::size_t c) const {
  using c10::ScalarType;
  ScalarType ranked[3] = {ScalarType::Undefined, ScalarType::Undefined, ScalarType::Undefined};
  const auto join = [](ScalarType x, ScalarType y) {
    if (x == ScalarType::Undefined) return y;
    return y == ScalarType::Undefined ? x : c10::promoteTypes(x, y);
  };
  for (std::size_t arg : {a, c}) {
    ScalarType type;
    int rank = 2;
    if (tensors_[arg] != kNoValue) {
      const ir::Value& v = graph_.value(node_.args[arg].value);
      type = v.dtype;
      rank = v.wrapped_number ? 2 : v.sizes.empty() ? 1 : 0;
    } else if (numbers_[arg] != kNoValue) {
      type = kernel_ir::IsFloat(builder_.TypeOf(numbers_[arg])) ? ScalarType::Double : ScalarType::Long;
    } else {
      type = node_.args[arg].constant.toScalar().type();
    }
    if (rank == 2 && type == ScalarType::Double) type = c10::get_default_dtype_as_scalartype();
    ranked[rank] = join(ranked[rank], type);
  }
  const auto combine = [&](ScalarType higher, ScalarType lower) {
    if (higher != ScalarType::Undefined && c10::isFloatingType(higher)) return higher;
    if (higher == ScalarType::Bool || (lower != ScalarType::Undefined && c10::isFloatingType(lower))) {
      return join(higher, lower);
    }
    return higher != ScalarType::Undefined ? higher : lower;
  };
  return *StorageOf(combine(ranked[0], combine(ranked[1], ranked[2])));
}

bool IsPointwise(const ir::Graph& graph, const ir::Node& node) {
  if (node.outputs.size() != 1 || node.outputs[0] == ir::kNoValue) return false;
  if (FindPointwiseRow(node.op) == nullptr) return false;
  const ir::Value& out = graph.value(node.outputs[0]);
  if (out.kind != ir::ValueKind::kTensor || !StorageOf(out.dtype) || out.layout != c10::Layout::Strided) return false;
  for (const ir::Arg& arg : node.args) {
    if (arg.kind == ir::Arg::Kind::kValueList) return false;
    if (arg.kind != ir::Arg::Kind::kValue) continue;
    if (NumberConstant(graph, arg.value)) continue;
    const ir::Value& v = graph.value(arg.value);
    if (v.kind != ir::ValueKind::kTensor || !StorageOf(v.dtype) || v.device != out.device) return false;
    if (v.layout != c10::Layout::Strided) return false;
  }
  // A dry run tells whether this form (exponent, rounding mode …) has a kernel.
  kernel_ir::Kernel kernel;
  kernel_ir::Builder builder(&kernel);
  std::vector<kernel_ir::ValueId> tensors, numbers;
  for (const ir::Arg& arg : node.args) {
    const bool tensor = arg.kind == ir::Arg::Kind::kValue;
    if (!tensor) {
      tensors.push_back(kNoValue);
    } else if (NumberConstant(graph, arg.value)) {
      tensors.push_back(EmitNumber(builder, graph, arg.value));
    } else {
      tensors.push_back(builder.Load(builder.AddBuffer(*StorageOf(graph.value(arg.value).dtype), false)));
    }
    if (arg.kind == ir::Arg::Kind::kDim) {
      const auto type = graph.exprs.TypeOf(arg.dims[0]);
      if (type == ir::NumberType::kBool) return false;
      const Type lane = type == ir::NumberType::kFloat ? Type::kF64 : Type::kI64;
      numbers.push_back(builder.Emit(Op::kParam, lane, {}, builder.AddParam(lane)));
    } else {
      numbers.push_back(kNoValue);
    }
  }
  return PointwiseEmitter(graph, node, &builder, std::move(tensors), std::move(numbers)).Emit() != kNoValue;
}

}  // namespace framefuse::fusion
