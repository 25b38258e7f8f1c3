// Tensors from sizes and numbers. The device argument is the recorder's business.
#include <c10/core/DefaultDtype.h>

#include <cmath>

#include "backends/graph/operators.h"
#include "symbolic/tracing/number_functions.h"
#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/shapes/shapes.h"

namespace framefuse::tracing {
namespace {

c10::ScalarType DtypeOr(const c10::IValue& v, c10::ScalarType otherwise) {
  return v.isNone() ? otherwise : v.toScalarType();
}

c10::ScalarType DefaultDtype() { return c10::typeMetaToScalarType(c10::get_default_dtype()); }

bool IsStrided(const c10::IValue& layout) { return layout.isNone() || layout.toLayout() == c10::Layout::Strided; }

bool Emit(Dims sizes, c10::ScalarType dtype, const c10::IValue& layout, Outputs& outputs) {
  if (!NonNegative(sizes) || !IsStrided(layout)) return false;
  outputs.assign(1, Contiguous(std::move(sizes), dtype));
  return true;
}

// (size, *, dtype, layout, device, pin_memory, memory_format)
bool Empty(Arguments args, Outputs& outputs) {
  Dims sizes = SymInts(args[0]);
  if (!NonNegative(sizes) || !IsStrided(args[2])) return false;
  const auto format = args[5].isNone() ? c10::MemoryFormat::Contiguous : args[5].toMemoryFormat();
  if (format == c10::MemoryFormat::Preserve || !HasFormat(sizes.size(), format)) return false;
  outputs.assign(1, WithFormat(std::move(sizes), DtypeOr(args[1], DefaultDtype()), format));
  return true;
}

// (size, *, dtype, layout, device, pin_memory)
bool Filled(Arguments args, Outputs& outputs) {
  return Emit(SymInts(args[0]), DtypeOr(args[1], DefaultDtype()), args[2], outputs);
}

bool Full(Arguments args, Outputs& outputs) {
  const c10::IValue& value = args[1];
  c10::ScalarType dtype = DefaultDtype();
  if (value.isBool()) dtype = c10::ScalarType::Bool;
  if (value.isInt() || value.isSymInt()) dtype = c10::ScalarType::Long;
  if (!value.isBool() && !value.isInt() && !value.isSymInt() && !value.isDouble() && !value.isSymFloat()) return false;
  return Emit(SymInts(args[0]), DtypeOr(args[2], dtype), args[3], outputs);
}

// (size, stride, *, dtype, layout …)
bool EmptyStrided(Arguments args, Outputs& outputs) {
  Dims sizes = SymInts(args[0]);
  Dims strides = SymInts(args[1]);
  if (!NonNegative(sizes) || sizes.size() != strides.size() || !IsStrided(args[3])) return false;
  outputs.assign(1, OutputMeta());
  outputs[0].sizes = std::move(sizes);
  outputs[0].strides = std::move(strides);
  outputs[0].dtype = DtypeOr(args[2], DefaultDtype());
  return true;
}

// randint.low (low, high, size, …), randint (high, size, …)
bool RandIntLow(Arguments args, Outputs& outputs) {
  return Emit(SymInts(args[2]), DtypeOr(args[3], c10::ScalarType::Long), args[4], outputs);
}
bool RandInt(Arguments args, Outputs& outputs) {
  return Emit(SymInts(args[1]), DtypeOr(args[2], c10::ScalarType::Long), args[3], outputs);
}

bool ScalarTensor(Arguments args, Outputs& outputs) {
  return Emit({}, DtypeOr(args[1], DefaultDtype()), args[2], outputs);
}

// (n, *, dtype, layout, …)
bool Eye(Arguments args, Outputs& outputs) {
  return Emit({args[0].toSymInt(), args[0].toSymInt()}, DtypeOr(args[1], DefaultDtype()), args[2], outputs);
}

// (n, m, *, dtype, layout, …)
bool EyeOfTwo(Arguments args, Outputs& outputs) {
  return Emit({args[0].toSymInt(), args[1].toSymInt()}, DtypeOr(args[2], DefaultDtype()), args[3], outputs);
}

// (self, *, dtype, layout, device, pin_memory, memory_format)
bool Like(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  if (!IsStrided(args[2])) return false;
  const c10::ScalarType dtype = DtypeOr(args[1], x.scalar_type());
  const auto format = args[5].isNone() ? c10::MemoryFormat::Preserve : args[5].toMemoryFormat();
  if (!HasFormat(static_cast<std::size_t>(x.dim()), format)) return false;
  outputs.assign(1, format == c10::MemoryFormat::Preserve ? LikeTensor(x, dtype)
                                                          : WithFormat(ToDims(x.sym_sizes()), dtype, format));
  return true;
}

bool FullLike(Arguments args, Outputs& outputs) {
  const c10::IValue shifted[] = {args[0], args[2], args[3], args[4], args[5], args[6]};
  return Like(shifted, outputs);
}

// new_empty, new_zeros, new_ones (self, size, *, dtype, layout, …)
bool New(Arguments args, Outputs& outputs) {
  return Emit(SymInts(args[1]), DtypeOr(args[2], args[0].toTensor().scalar_type()), args[3], outputs);
}

// (self, size, fill_value, *, dtype, layout, …)
bool NewFull(Arguments args, Outputs& outputs) {
  return Emit(SymInts(args[1]), DtypeOr(args[3], args[0].toTensor().scalar_type()), args[4], outputs);
}

std::optional<ir::Dim> DimOfNumber(Sizes& sizes, const c10::IValue& v) {
  if (v.isInt() || v.isSymInt()) return sizes.ToDim(v.toSymInt());
  if (v.isSymFloat()) return sizes.ToDim(v.toSymFloat());
  return v.isDouble() ? std::optional(sizes.Table().FloatConstant(v.toDouble())) : std::nullopt;
}

// Where one is a float: in doubles, as the kernel counts its elements.
bool ArangeOfSymbols(const c10::IValue& start, const c10::IValue& end, const c10::IValue& step, Arguments options,
                     Outputs& outputs) {
  Sizes& sizes = Recorder::Current()->sizes();
  const c10::ScalarType dtype = DtypeOr(options[0], DefaultDtype());
  if (c10::isIntegralType(dtype, true)) return false;
  const std::optional<ir::Dim> from = DimOfNumber(sizes, start), to = DimOfNumber(sizes, end);
  const std::optional<ir::Dim> by = DimOfNumber(sizes, step);
  if (!from || !to || !by) return false;
  for (const ir::Dim d : {*from, *to, *by}) {
    if (!IsExactAsFloat(sizes, d)) return false;
  }
  ir::ExprTable& table = sizes.Table();
  const auto as_float = [&](ir::Dim d) {
    return sizes.IsFloat(d)  ? d
           : d.is_constant() ? table.FloatConstant(static_cast<double>(d.constant()))
                             : table.Make(ir::ExprKind::kToFloat, d);
  };
  const ir::Dim zero = table.FloatConstant(0);
  if (!sizes.Decide(ir::ExprKind::kLt, zero, as_float(*by))) return false;
  const ir::Dim span =
      from->Is(0) ? as_float(*to)
                  : table.Make(ir::ExprKind::kAdd, as_float(*to), table.Make(ir::ExprKind::kNeg, as_float(*from)));
  if (!sizes.Decide(ir::ExprKind::kLe, zero, span)) return false;
  const std::optional<ir::Dim> count =
      ApplyFunction(sizes, NumberFunction::kCeil, table.Make(ir::ExprKind::kTrueDiv, span, as_float(*by)));
  return count && Emit({sizes.ToSymInt(*count)}, dtype, options[1], outputs);
}

bool ArangeOf(const c10::IValue& start, const c10::IValue& end, const c10::IValue& step, Arguments options,
              Outputs& outputs) {
  const auto whole = [](const c10::IValue& v) { return v.isInt() || v.isSymInt(); };
  if (whole(start) && whole(end) && whole(step) && (start.isSymInt() || end.isSymInt() || step.isSymInt())) {
    const c10::SymInt by = step.toSymInt(), span = end.toSymInt() - start.toSymInt();
    if (by <= 0 || span < 0) return false;
    const c10::SymInt count = IsOne(by) ? span : (span + by - 1) / by;
    return Emit({count}, DtypeOr(options[0], c10::ScalarType::Long), options[1], outputs);
  }
  if (start.isSymInt() || end.isSymInt() || step.isSymInt() || start.isSymFloat() || end.isSymFloat() ||
      step.isSymFloat()) {
    return ArangeOfSymbols(start, end, step, options, outputs);
  }
  auto number = [](const c10::IValue& v) { return v.isInt() || v.isDouble(); };
  if (!number(start) || !number(end) || !number(step)) return false;
  const bool integral = start.isInt() && end.isInt() && step.isInt();
  const c10::ScalarType dtype = DtypeOr(options[0], integral ? c10::ScalarType::Long : DefaultDtype());
  std::int64_t count;
  if (integral) {
    const std::int64_t by = step.toInt(), span = end.toInt() - start.toInt();
    if (by == 0 || (span != 0 && (span > 0) != (by > 0))) return false;
    count = (span + by - (by > 0 ? 1 : -1)) / by;
  } else {
    if (c10::isIntegralType(dtype, true)) return false;
    auto real = [](const c10::IValue& v) { return v.isInt() ? static_cast<double>(v.toInt()) : v.toDouble(); };
    const double size = std::ceil((real(end) - real(start)) / real(step));
    if (!(size >= 0 && size < 1e15)) return false;
    count = static_cast<std::int64_t>(size);
  }
  return Emit({c10::SymInt(count)}, dtype, options[1], outputs);
}

bool Arange(Arguments args, Outputs& outputs) {
  return ArangeOf(c10::IValue(std::int64_t{0}), args[0], c10::IValue(std::int64_t{1}), args.slice(1), outputs);
}
bool ArangeStart(Arguments args, Outputs& outputs) {
  return ArangeOf(args[0], args[1], c10::IValue(std::int64_t{1}), args.slice(2), outputs);
}
bool ArangeStartStep(Arguments args, Outputs& outputs) {
  return ArangeOf(args[0], args[1], args[2], args.slice(3), outputs);
}

// (n, *, dtype, layout, …)
bool RandPerm(Arguments args, Outputs& outputs) {
  return Emit({args[0].toSymInt()}, DtypeOr(args[1], c10::ScalarType::Long), args[2], outputs);
}

// (mean, std, size, *, generator, dtype, layout, …)
bool Normal(Arguments args, Outputs& outputs) {
  const c10::ScalarType dtype = DtypeOr(args[4], DefaultDtype());
  return c10::isFloatingType(dtype) && args[1].isDouble() && args[1].toDouble() >= 0 &&
         Emit(SymInts(args[2]), dtype, args[5], outputs);
}

// linspace (start, end, steps, *, dtype, …), logspace (start, end, steps, base, *, dtype, …), of real numbers
bool Spaced(const c10::IValue& start, const c10::IValue& end, const c10::IValue& steps, Arguments options,
            Outputs& outputs) {
  const auto real = [](const c10::IValue& v) { return v.isInt() || v.isDouble() || v.isSymInt() || v.isSymFloat(); };
  const c10::ScalarType dtype = DtypeOr(options[0], DefaultDtype());
  return real(start) && real(end) && c10::isFloatingType(dtype) && Emit({steps.toSymInt()}, dtype, options[1], outputs);
}
bool LinSpace(Arguments args, Outputs& outputs) { return Spaced(args[0], args[1], args[2], args.slice(3), outputs); }
bool LogSpace(Arguments args, Outputs& outputs) { return Spaced(args[0], args[1], args[2], args.slice(4), outputs); }

// Whether it is a number that eager's kernel reads when it runs; on a device it would wait for it.
bool IsEnd(const c10::IValue& v, bool* is_complex) {
  if (!v.isTensor()) {
    *is_complex = *is_complex || v.isComplexDouble();
    return v.isInt() || v.isDouble() || v.isComplexDouble();
  }
  *is_complex = *is_complex || v.toTensor().is_complex();
  return v.toTensor().is_cpu() && v.toTensor().dim() == 0;
}

// (start, end, steps, …, *, dtype, layout, device, pin_memory)
bool SpacedOf(Arguments args, Arguments options, Outputs& outputs) {
  bool is_complex = false;
  if (!IsEnd(args[0], &is_complex) || !IsEnd(args[1], &is_complex) || !args[2].isInt()) return false;
  if (!options[2].isNone() && !options[2].toDevice().is_cpu()) return false;
  const c10::ScalarType usual = is_complex ? c10::toComplexType(DefaultDtype()) : DefaultDtype();
  const c10::ScalarType dtype = DtypeOr(options[0], usual);
  if (is_complex && !c10::isComplexType(dtype)) return false;
  return Emit({c10::SymInt(args[2].toInt())}, dtype, options[1], outputs);
}
bool LinSpaceOfTensors(Arguments args, Outputs& outputs) { return SpacedOf(args, args.slice(3), outputs); }
bool LogSpaceOfTensors(Arguments args, Outputs& outputs) { return SpacedOf(args, args.slice(4), outputs); }

// (start, end, steps, …, *, out)
bool SpacedInto(Arguments args, Outputs& outputs) {
  bool is_complex = false;
  if (!IsEnd(args[0], &is_complex) || !IsEnd(args[1], &is_complex) || !args[2].isInt()) return false;
  const at::Tensor& out = args.back().toTensor();
  outputs.clear();
  return out.is_cpu() && out.dim() == 1 && out.sym_size(0) == args[2].toInt() && (out.is_complex() || !is_complex);
}

using enum ir::OpName;

constexpr ShapeRow kRows[] = {
    {kLinspaceTensorTensor, LinSpaceOfTensors},
    {kLinspaceTensorScalar, LinSpaceOfTensors},
    {kLinspaceScalarTensor, LinSpaceOfTensors},
    {kLogspaceTensorTensor, LogSpaceOfTensors},
    {kLogspaceTensorScalar, LogSpaceOfTensors},
    {kLogspaceScalarTensor, LogSpaceOfTensors},
    {kLinspaceTensorTensorOut, SpacedInto},
    {kLinspaceTensorScalarOut, SpacedInto},
    {kLinspaceScalarTensorOut, SpacedInto},
    {kLogspaceTensorTensorOut, SpacedInto},
    {kLogspaceTensorScalarOut, SpacedInto},
    {kLogspaceScalarTensorOut, SpacedInto},
    {kEmptyMemoryFormat, Empty},
    {kEmptyStrided, EmptyStrided},
    {kZeros, Filled},
    {kOnes, Filled},
    {kRand, Filled},
    {kRandn, Filled},
    {kFull, Full},
    {kRandint, RandInt},
    {kRandintLow, RandIntLow},
    {kScalarTensor, ScalarTensor},
    {kEmptyLike, Like},
    {kZerosLike, Like},
    {kOnesLike, Like},
    {kRandLike, Like},
    {kRandnLike, Like},
    {kFullLike, FullLike},
    {kNewEmpty, New},
    {kNewZeros, New},
    {kNewOnes, New},
    {kNewFull, NewFull},
    {kEye, Eye},
    {kEyeM, EyeOfTwo},
    {kRandperm, RandPerm},
    {kNormalFloatFloat, Normal},
    {kLinspace, LinSpace},
    {kLogspace, LogSpace},
    {kArange, Arange},
    {kArangeStart, ArangeStart},
    {kArangeStartStep, ArangeStartStep},
};

}  // namespace

c10::ArrayRef<ShapeRow> FactoryShapes() { return kRows; }

}  // namespace framefuse::tracing
