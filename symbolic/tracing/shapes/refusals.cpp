// What eager's kernels refuse and torch's meta kernels do not ask for. The capture breaks there, so that the program
// gets eager's error where the operator stands, also when nobody reads its result.
#include <limits>

#include "backends/graph/operators.h"
#include "symbolic/tracing/fake_tensor.h"
#include "symbolic/tracing/shapes/shapes.h"

namespace framefuse::tracing {
namespace {

bool TypesDiffer(Arguments args) {
  std::optional<c10::ScalarType> type;
  for (const c10::IValue& v : args) {
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    if (type.has_value() && *type != v.toTensor().scalar_type()) return true;
    type = v.toTensor().scalar_type();
  }
  return false;
}

// No kernel multiplies matrices of bools, and on a device none of integers.
bool NotMultiplied(Arguments args) {
  for (const c10::IValue& v : args) {
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    const at::Tensor& t = v.toTensor();
    if (c10::isIntegralType(t.scalar_type(), /*includeBool=*/true) &&
        (t.scalar_type() == c10::ScalarType::Bool || !t.is_cpu())) {
      return true;
    }
  }
  return TypesDiffer(args);
}

bool ExpandsTo(const at::Tensor& t, c10::SymIntArrayRef sizes) {
  if (t.dim() > static_cast<std::int64_t>(sizes.size())) return false;
  for (std::int64_t d = 1; d <= t.dim(); ++d) {
    const c10::SymInt& from = t.sym_size(-d);
    if (!IsOne(from) && from != sizes[sizes.size() - static_cast<std::size_t>(d)]) return false;
  }
  return true;
}

// (self, matrix, matrix or vector, …)
bool AddendDoesNotFit(Arguments args) {
  const at::Tensor &a = args[1].toTensor(), &b = args[2].toTensor();
  if (a.dim() < 2 || b.dim() > a.dim() || b.dim() == 0) return false;
  Dims product(a.sym_sizes().begin(), a.sym_sizes().end() - 1);
  if (b.dim() == a.dim()) product.push_back(b.sym_size(-1));
  return !ExpandsTo(args[0].toTensor(), product);
}

bool NotAddedToProduct(Arguments args) { return NotMultiplied(args) || AddendDoesNotFit(args); }

// (self, batch1, batch2, …)
bool NotAddedToSum(Arguments args) {
  const at::Tensor &a = args[1].toTensor(), &b = args[2].toTensor();
  return TypesDiffer(args) ||
         (a.dim() == 3 && b.dim() == 3 && !ExpandsTo(args[0].toTensor(), Dims{a.sym_size(1), b.sym_size(2)}));
}

// (…, boundaries, …)
bool BoundariesOfTables(Arguments args) { return args[1].toTensor().dim() != 1; }

// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
bool GroupsDoNotFit(Arguments args) {
  const c10::SymInt groups = args[8].isSymInt() ? args[8].toSymInt() : c10::SymInt(args[8].toInt());
  if (groups <= 0) return true;
  return !args[6].toBool() && args[1].toTensor().sym_size(0) % groups != 0;
}

// Sizes of what the indices of index_put choose; nullopt if that depends on their values.
std::optional<Dims> IndexedSizes(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices) {
  Dims chosen, rest;
  std::size_t first = 0, last = 0, count = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::optional<at::Tensor> index = indices[i];
    if (!index.has_value() || !index->defined()) continue;
    if (index->scalar_type() == c10::ScalarType::Bool || index->scalar_type() == c10::ScalarType::Byte) return {};
    if (!Broadcast(Dims(chosen), index->sym_sizes(), &chosen)) return {};
    if (count++ == 0) first = i;
    last = i;
  }
  const bool together = last - first + 1 == count;
  for (std::size_t d = 0; d < static_cast<std::size_t>(self.dim()); ++d) {
    const bool indexed = d < indices.size() && indices[d].has_value() && indices[d]->defined();
    if (!indexed) rest.push_back(self.sym_size(static_cast<std::int64_t>(d)));
  }
  rest.insert(rest.begin() + static_cast<std::ptrdiff_t>(together ? first : 0), chosen.begin(), chosen.end());
  return rest;
}

// (self, indices, values, …)
bool ValuesDoNotFit(Arguments args) {
  if (args[0].toTensor().scalar_type() != args[2].toTensor().scalar_type()) return true;
  const auto indices = args[1].toOptionalTensorList();
  if (static_cast<std::int64_t>(indices.size()) > args[0].toTensor().dim()) return true;
  const std::optional<Dims> sizes = IndexedSizes(args[0].toTensor(), indices);
  if (!sizes.has_value()) return false;
  return !ExpandsTo(args[2].toTensor(), *sizes);
}

// (self, mask, …), in place
bool MaskDoesNotFit(Arguments args) { return !ExpandsTo(args[1].toTensor(), args[0].toTensor().sym_sizes()); }

// (…, value): a tensor that stands for a number
bool ValueHasDimensions(Arguments args) { return args.back().toTensor().dim() != 0; }

bool FillDoesNotFit(Arguments args) { return MaskDoesNotFit(args) || ValueHasDimensions(args); }

// (self, other, …)
bool IntegersByZero(Arguments args) {
  if (!c10::isIntegralType(args[0].toTensor().scalar_type(), /*includeBool=*/true)) return false;
  if (args[1].isTensor()) {  // a number that torch made a tensor of, and no traced one
    const at::Tensor& number = args[1].toTensor();
    const bool read = number.is_cpu() && number.unsafeGetTensorImpl()->is_wrapped_number() && number.has_storage();
    if (!read || number.scalar_type() != c10::ScalarType::Long || AsFake(number) != nullptr) return false;
    return *number.const_data_ptr<std::int64_t>() == 0;
  }
  const c10::Scalar other = args[1].toScalar();
  if (!other.isIntegral(/*includeBool=*/true) || other.isSymbolic()) return false;
  return other.toLong() == 0;
}

bool QuotientDoesNotFit(Arguments args) {
  return IntegersByZero(args) || !ExpandsTo(args[1].toTensor(), args[0].toTensor().sym_sizes());
}

const at::Tensor* Defined(const c10::IValue& v) {
  return v.isTensor() && v.toTensor().defined() ? &v.toTensor() : nullptr;
}

// (input, normalized_shape, weight, bias, …)
bool WeightsDoNotFit(Arguments args) {
  const std::vector<c10::SymInt> shape = args[1].toSymIntVector();
  for (const std::size_t i : {2, 3}) {
    const at::Tensor* t = Defined(args[i]);
    if (t != nullptr && t->sym_sizes() != c10::SymIntArrayRef(shape)) return true;
  }
  return false;
}

// (input, weight, bias, mean, variance, …): a narrow input may have wide parameters.
bool ParametersOfOtherTypes(Arguments args) {
  const at::Tensor& input = args[0].toTensor();
  const bool narrow = c10::isReducedFloatingType(input.scalar_type());
  if (!input.is_cpu()) return false;
  for (const c10::IValue& v : args.slice(1, 4)) {
    const at::Tensor* t = Defined(v);
    if (t == nullptr || t->scalar_type() == input.scalar_type()) continue;
    if (!narrow || t->scalar_type() != c10::ScalarType::Float) return true;
  }
  return false;
}

// (self, tensor1, tensor2, …)
bool QuotientOfIntegers(Arguments args) {
  return c10::isIntegralType(args[1].toTensor().scalar_type(), /*includeBool=*/true) &&
         c10::isIntegralType(args[2].toTensor().scalar_type(), /*includeBool=*/true);
}

// (self, …)
bool DrawsIntegers(Arguments args) {
  const c10::ScalarType type = args[0].toTensor().scalar_type();
  return !c10::isFloatingType(type) && !c10::isComplexType(type);
}

// (self, from, to, …)
bool DrawsFromNoRange(Arguments args) {
  if (DrawsIntegers(args)) return true;  // what else is wrong with it comes first
  if (!args[1].isDouble() || !args[2].isDouble()) return false;
  const double from = args[1].toDouble(), to = args[2].toDouble();
  const c10::ScalarType type = args[0].toTensor().scalar_type();
  double most = std::numeric_limits<double>::max();
  if (type == c10::ScalarType::Float) most = std::numeric_limits<float>::max();
  if (type == c10::ScalarType::BFloat16) most = static_cast<double>(std::numeric_limits<c10::BFloat16>::max());
  if (type == c10::ScalarType::Half) most = static_cast<double>(std::numeric_limits<c10::Half>::max());
  const auto fits = [most](double bound) { return bound >= -most && bound <= most; };
  if (!fits(from) || !fits(to)) return true;
  TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from, " > to=", to);
  return to - from > most;
}

// (self, …)
bool OfBools(Arguments args) { return args[0].toTensor().scalar_type() == c10::ScalarType::Bool; }

template <std::size_t index>
bool NoIndex(Arguments args) {
  const c10::ScalarType type = args[index].toTensor().scalar_type();
  return type != c10::ScalarType::Int && type != c10::ScalarType::Long;
}

// (self, p, dim, maxnorm)
bool HasNoSuchDimension(Arguments args) {
  const std::int64_t rank = args[0].toTensor().dim();
  const c10::SymInt dim = args[2].toSymInt();
  return dim < -rank || dim >= rank;
}

// (self, index, source, accumulate)
bool PlacesDoNotFit(Arguments args) {
  const at::Tensor &index = args[1].toTensor(), &source = args[2].toTensor();
  if (index.scalar_type() != at::kLong || source.scalar_type() != args[0].toTensor().scalar_type()) return true;
  return index.sym_numel() != source.sym_numel();
}

// (self, mask, source)
bool SourceDoesNotFit(Arguments args) {
  return MaskDoesNotFit(args) || args[0].toTensor().scalar_type() != args[2].toTensor().scalar_type();
}

// (self, batch1, batch2, …): eager gives self the sizes of the result.
bool ProductDoesNotFit(Arguments args) {
  const c10::SymIntArrayRef a = args[1].toTensor().sym_sizes(), b = args[2].toTensor().sym_sizes();
  return a.size() == 3 && b.size() == 3 && args[0].toTensor().sym_sizes() != c10::SymIntArrayRef({a[1], b[2]});
}

constexpr const char* kTypes = "its operands are of several types";
constexpr const char* kNoSum = "its operands' types or sizes do not fit";
constexpr const char* kNoNumber = "the value has dimensions";

using enum ir::OpName;

constexpr RefusalRow kRows[] = {
    {kMm, NotMultiplied, "there is no kernel for its operands' types"},
    {kBmm, NotMultiplied, "there is no kernel for its operands' types"},
    {kMv, NotMultiplied, "there is no kernel for its operands' types"},
    {kDot, NotMultiplied, "there is no kernel for its operands' types"},
    {kAddmm, NotAddedToProduct, kNoSum},
    {kAddmv, NotAddedToProduct, kNoSum},
    {kBaddbmm, NotAddedToProduct, kNoSum},
    {kMaskedFill_Scalar, MaskDoesNotFit, "the mask does not fit"},
    {kMaskedFill_Tensor, FillDoesNotFit, "the mask or the value does not fit"},
    {kMaskedFillTensor, ValueHasDimensions, kNoNumber},
    {kFill_Tensor, ValueHasDimensions, kNoNumber},
    {kFillTensor, ValueHasDimensions, kNoNumber},
    {kIndexFillIntTensor, ValueHasDimensions, kNoNumber},
    {kIndexFill_IntTensor, ValueHasDimensions, kNoNumber},
    {kMaskedScatter_, SourceDoesNotFit, "the mask or the source does not fit"},
    {kNativeLayerNorm, WeightsDoNotFit, "weight or bias are not of the normalized shape"},
    {kNativeBatchNorm, ParametersOfOtherTypes, kTypes},
    {k_NativeBatchNormLegit, ParametersOfOtherTypes, kTypes},
    {k_NativeBatchNormLegitNoStats, ParametersOfOtherTypes, kTypes},
    {kLerpScalar, TypesDiffer, kTypes},
    {kLerpTensor, TypesDiffer, kTypes},
    {kLerp_Scalar, TypesDiffer, kTypes},
    {kLerp_Tensor, TypesDiffer, kTypes},
    {kLinalgCross, TypesDiffer, kTypes},
    {kComplex, TypesDiffer, kTypes},
    {k_CdistForward, TypesDiffer, kTypes},
    {kBinaryCrossEntropy, TypesDiffer, kTypes},
    {kAddbmm, NotAddedToSum, kNoSum},
    {kBucketizeTensor, BoundariesOfTables, "the boundaries have several dimensions"},
    {kBucketizeScalar, BoundariesOfTables, "the boundaries have several dimensions"},
    {kConvolution, GroupsDoNotFit, "the weight does not divide into groups"},
    {kAddbmm_, ProductDoesNotFit, "its input is resized"},
    {kAddcdiv, QuotientOfIntegers, "integers are divided"},
    {kAddcdiv_, QuotientOfIntegers, "integers are divided"},
    {kNormal_, DrawsIntegers, "its numbers are not of floating point"},
    {kUniform_, DrawsFromNoRange, "it has no such range of numbers"},
    {kArgmax, OfBools, "it takes no bools"},
    {kArgmin, OfBools, "it takes no bools"},
    {kRenorm, HasNoSuchDimension, "it has no such dimension"},
    {kRenorm_, HasNoSuchDimension, "it has no such dimension"},
    {kPut_, PlacesDoNotFit, "the index or the source does not fit"},
    {kEmbeddingRenorm_, NoIndex<1>, "the index is not of integers"},
    {kIndexSelect, NoIndex<2>, "the index is not of integers"},
    {kRemainderScalar, IntegersByZero, "integers are divided by zero"},
    {kRemainder_Scalar, IntegersByZero, "integers are divided by zero"},
    {kFmodScalar, IntegersByZero, "integers are divided by zero"},
    {kFmod_Scalar, IntegersByZero, "integers are divided by zero"},
    {kFloorDivide, IntegersByZero, "integers are divided by zero"},
    {kFloorDivide_Tensor, QuotientDoesNotFit, "the quotient is larger, or of a division by zero"},
    {kIndexPut, ValuesDoNotFit, "the values do not fit the places"},
    {kIndexPut_, ValuesDoNotFit, "the values do not fit the places"},
};

}  // namespace

const RefusalRow* FindRefusal(ir::OpName name) {
  for (const RefusalRow& row : kRows) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

}  // namespace framefuse::tracing
