// What eager's kernels warn of for sizes, strides or values that no run on one element has.
#include <cmath>

#include "backends/graph/operators.h"
#include "symbolic/tracing/shapes/shapes.h"

namespace framefuse::tracing {
namespace {

// (self, dim, *, correction, keepdim[, out])
bool NoDegreesOfFreedom(Arguments args) {
  const at::Tensor& self = args[0].toTensor();
  c10::SymInt reduced = 1;
  const auto take = [&](std::int64_t d) { reduced = reduced * self.sym_size(d); };
  const bool all = args[1].isNone() || args[1].toListRef().empty();
  for (std::int64_t d = 0; all && d < self.dim(); ++d) take(d);
  if (!all && self.dim() > 0) {
    for (const std::int64_t d : args[1].toIntVector()) take(d);
  }
  const double correction = args[2].isNone() ? 1.0 : args[2].toScalar().toDouble();
  if (self.sym_numel() == 0) return correction >= 0;  // it counts none then, whatever the sizes
  constexpr double kMostExact = 0x1p52;
  return std::abs(correction) <= kMostExact ? reduced <= c10::SymInt(static_cast<std::int64_t>(std::floor(correction)))
                                            : correction > 0;
}

bool DiscardsImaginaryPart(const at::Tensor& from, c10::ScalarType to) {
  return from.is_complex() && !c10::isComplexType(to) && to != c10::ScalarType::Bool;
}

// (self, *, dtype, …)
bool ConvertsToReal(Arguments args) {
  return args[1].isInt() && DiscardsImaginaryPart(args[0].toTensor(), args[1].toScalarType());
}

// (self, src, …)
bool CopiesToReal(Arguments args) {
  return DiscardsImaginaryPart(args[1].toTensor(), args[0].toTensor().scalar_type());
}

bool HasGaps(Arguments args) {
  for (const c10::IValue& v : args) {
    const at::Tensor* t = OptionalTensor(v);
    if (t != nullptr && !IsContiguous(*t)) return true;
  }
  return false;
}

// Numbers that the type has no room for are refused; of those that it has not exactly is warned.
bool IsOutside(c10::ScalarType type, std::int64_t number) {
  int bits = 63;
  switch (type) {
    case c10::ScalarType::Double:
      bits = 53;
      break;
    case c10::ScalarType::Float:
      bits = 24;
      break;
    case c10::ScalarType::Half:
      bits = 11;
      break;
    case c10::ScalarType::Long:
      break;
    default:
      bits = 7;  // of the smallest type, and exact in all others
  }
  return std::abs(static_cast<double>(number)) > std::ldexp(1.0, bits);
}

// (self, to, …)
bool DrawsTo(Arguments args) { return IsOutside(args[0].toTensor().scalar_type(), args[1].toInt() - 1); }

// (self, from, to, …)
bool DrawsBetween(Arguments args) {
  const c10::ScalarType type = args[0].toTensor().scalar_type();
  return args[2].isNone() || IsOutside(type, args[1].toInt()) || IsOutside(type, args[2].toInt() - 1);
}

using enum ir::OpName;

constexpr WarningRow kRows[] = {
    {kVarCorrection, NoDegreesOfFreedom},
    {kStdCorrection, NoDegreesOfFreedom},
    {kVarCorrectionOut, NoDegreesOfFreedom},
    {kStdCorrectionOut, NoDegreesOfFreedom},
    {kVarMeanCorrection, NoDegreesOfFreedom},
    {kStdMeanCorrection, NoDegreesOfFreedom},
    {k_ToCopy, ConvertsToReal},
    {kCopy_, CopiesToReal},
    {kCopy, CopiesToReal},
    {kSearchsortedTensor, HasGaps},
    {kSearchsortedScalar, HasGaps},
    {kBucketizeTensor, HasGaps},
    {kRandom_To, DrawsTo},
    {kRandom_From, DrawsBetween},
};

}  // namespace

const WarningRow* FindWarning(ir::OpName name) {
  for (const WarningRow& row : kRows) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

}  // namespace framefuse::tracing
