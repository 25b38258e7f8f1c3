// Shape functions: the metadata of an operator's outputs from its arguments, in about a microsecond.
// They are written on SymInt, so symbolic sizes pass through; comparisons of symbolic sizes become guards.
// Invariant: a shape function either describes every output exactly as the real kernel would make it, or
// returns false; then torch's meta kernel decides, and raises eager's error where the arguments are wrong.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_SHAPES_SHAPES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_SHAPES_SHAPES_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/SymInt.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace framefuse::ir {
enum class OpName : std::uint16_t;
}  // namespace framefuse::ir

namespace framefuse::tracing {

using Dims = c10::SmallVector<c10::SymInt, 5>;

struct OutputMeta {
  Dims sizes;
  Dims strides;
  c10::SymInt offset = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;
  int alias_of = -1;  // argument whose storage the output shares; -1: fresh
  bool defined = true;
};

using Outputs = c10::SmallVector<OutputMeta, 2>;
using Arguments = c10::ArrayRef<c10::IValue>;
using ShapeFn = bool (*)(Arguments args, Outputs& outputs);

// Null: there is none.
ShapeFn FindShapeFunction(ir::OpName name);

struct ShapeRow {
  ir::OpName name;
  ShapeFn function;
};
// One table a family of operators.
c10::ArrayRef<ShapeRow> PointwiseShapes();
c10::ArrayRef<ShapeRow> MatmulShapes();
c10::ArrayRef<ShapeRow> ViewShapes();
c10::ArrayRef<ShapeRow> ReductionShapes();
c10::ArrayRef<ShapeRow> FactoryShapes();
c10::ArrayRef<ShapeRow> NormalizationShapes();
c10::ArrayRef<ShapeRow> ConvolutionShapes();
c10::ArrayRef<ShapeRow> AttentionShapes();
c10::ArrayRef<ShapeRow> IndexingShapes();
c10::ArrayRef<ShapeRow> WindowShapes();
c10::ArrayRef<ShapeRow> SelectionShapes();

// Whether eager would raise on these arguments, which no kernel for metadata finds out (refusals.cpp).
struct RefusalRow {
  ir::OpName name;
  bool (*refuses)(Arguments args);
  const char* reason;
};
const RefusalRow* FindRefusal(ir::OpName name);  // null: nothing is known to be

// Whether eager's kernel warns of these arguments (warnings.cpp). Where there is a row it alone decides.
struct WarningRow {
  ir::OpName name;
  bool (*warns)(Arguments args);
};
const WarningRow* FindWarning(ir::OpName name);  // null: nothing is known to be

// ---- shared vocabulary

bool IsOne(const c10::SymInt& s);
// Negative dimensions count from the end; nullopt if out of range (scalars count as rank 1).
std::optional<std::int64_t> WrapDim(std::int64_t dim, std::int64_t rank);
Dims ContiguousStrides(c10::SymIntArrayRef sizes);
OutputMeta Contiguous(Dims sizes, c10::ScalarType dtype);
// Strides that `memory_format` gives to `sizes`.
// Whether tensors of that many dimensions have the format: torch raises otherwise.
bool HasFormat(std::size_t dimensions, c10::MemoryFormat format);
OutputMeta WithFormat(Dims sizes, c10::ScalarType dtype, c10::MemoryFormat format);
// What empty_like (preserve_format) makes of `t`.
OutputMeta LikeTensor(const at::Tensor& t, c10::ScalarType dtype);
OutputMeta ContiguousLike(const at::Tensor& t);
// The same geometry, sharing argument `alias_of`.
OutputMeta AliasOf(const at::Tensor& t, int alias_of);
bool IsContiguous(const at::Tensor& t);
bool IsNonOverlappingAndDense(const at::Tensor& t);
// Several of its elements are one in memory, as far as is cheap to see.
bool IsExpanded(const at::Tensor& t);
// Broadcast of two shapes; false if they do not fit.
bool Broadcast(c10::SymIntArrayRef a, c10::SymIntArrayRef b, Dims* out);
// Sizes and strides that TensorIterator gives to a fresh output of these operands; false: they do not broadcast.
// `common`: the type that it converts them to, if it does. `beside_number`: eager makes a number a 0-dim operand, too.
bool IteratorOutput(c10::ArrayRef<const at::Tensor*> operands, c10::ScalarType dtype, OutputMeta* out,
                    c10::ScalarType common = c10::ScalarType::Undefined, bool beside_number = false);
c10::ScalarType PromotedType(c10::ArrayRef<const at::Tensor*> operands);
Dims ToDims(c10::SymIntArrayRef sizes);
Dims SymInts(const c10::IValue& v);
bool NonNegative(const Dims& sizes);
// Optional tensor argument: null for None or undefined.
const at::Tensor* OptionalTensor(const c10::IValue& v);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_SHAPES_SHAPES_H_
