#include "symbolic/tracing/shapes/shapes.h"

#include <ATen/native/TypeProperties.h>

#include <algorithm>
#include <array>

#include "backends/graph/operators.h"
#include "common/check.h"
#include "symbolic/tracing/shapes/unbacked.h"
#include "symbolic/tracing/size_node.h"

namespace framefuse::tracing {

ShapeFn FindShapeFunction(ir::OpName name) {
  static const auto* table = [] {
    auto* t = new std::array<ShapeFn, ir::kOpNames>{};
    for (c10::ArrayRef<ShapeRow> family :
         {PointwiseShapes(), MatmulShapes(), ViewShapes(), ReductionShapes(), FactoryShapes(), NormalizationShapes(),
          ConvolutionShapes(), AttentionShapes(), IndexingShapes(), WindowShapes(), SelectionShapes()}) {
      for (const ShapeRow& row : family) {
        ShapeFn& function = (*t)[static_cast<std::size_t>(row.name)];
        FF_CHECK(function == nullptr) << ir::TextOf(row.name) << " has two shape functions";
        function = row.function;
      }
    }
    return t;
  }();
  return (*table)[static_cast<std::size_t>(name)];
}

bool IsOne(const c10::SymInt& s) { return s == 1; }

std::optional<std::int64_t> WrapDim(std::int64_t dim, std::int64_t rank) {
  if (rank == 0) rank = 1;
  if (dim < -rank || dim >= rank) return std::nullopt;
  return dim < 0 ? dim + rank : dim;
}

Dims ToDims(c10::SymIntArrayRef sizes) { return Dims(sizes.begin(), sizes.end()); }

bool NonNegative(const Dims& sizes) {
  for (const c10::SymInt& s : sizes) {
    if (s < 0) return false;
  }
  return true;
}

Dims SymInts(const c10::IValue& v) {
  if (v.isIntList()) {
    auto list = v.toIntList();
    Dims dims;
    for (std::int64_t d : list) dims.emplace_back(d);
    return dims;
  }
  auto list = v.toSymIntVector();
  return Dims(list.begin(), list.end());
}

const at::Tensor* OptionalTensor(const c10::IValue& v) {
  if (!v.isTensor() || !v.toTensor().defined()) return nullptr;
  return &v.toTensor();
}

Dims ContiguousStrides(c10::SymIntArrayRef sizes) {
  Dims strides(sizes.size(), c10::SymInt(1));
  for (std::size_t i = sizes.size(); i-- > 1;) {
    // A size of 0 counts as 1, as in TensorImpl.
    strides[i - 1] = sizes[i] != 0 ? strides[i] * sizes[i] : strides[i];
  }
  return strides;
}

OutputMeta Contiguous(Dims sizes, c10::ScalarType dtype) {
  OutputMeta out;
  out.strides = ContiguousStrides(sizes);
  out.sizes = std::move(sizes);
  out.dtype = dtype;
  return out;
}

namespace {

// Strides for `sizes` when memory order is given by `order` (outermost first).
Dims StridesInOrder(c10::SymIntArrayRef sizes, std::initializer_list<int> order) {
  Dims strides(sizes.size(), c10::SymInt(1));
  c10::SymInt next = 1;
  for (auto it = std::rbegin(order); it != std::rend(order); ++it) {
    const c10::SymInt& size = sizes[static_cast<std::size_t>(*it)];
    strides[static_cast<std::size_t>(*it)] = next;
    // As get_channels_last_strides: a zero size does not zero the strides of the dimensions around it.
    if (size != 0) next = next * size;
  }
  return strides;
}

}  // namespace

bool HasFormat(std::size_t dimensions, c10::MemoryFormat format) {
  if (format == c10::MemoryFormat::ChannelsLast) return dimensions == 4;
  return format != c10::MemoryFormat::ChannelsLast3d || dimensions == 5;
}

OutputMeta WithFormat(Dims sizes, c10::ScalarType dtype, c10::MemoryFormat format) {
  OutputMeta out = Contiguous(std::move(sizes), dtype);
  if (format == c10::MemoryFormat::ChannelsLast && out.sizes.size() == 4) {
    out.strides = StridesInOrder(out.sizes, {0, 2, 3, 1});
  } else if (format == c10::MemoryFormat::ChannelsLast3d && out.sizes.size() == 5) {
    out.strides = StridesInOrder(out.sizes, {0, 2, 3, 4, 1});
  }
  return out;
}

bool IsContiguous(const at::Tensor& t) {
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  if (!impl->has_symbolic_sizes_strides()) return impl->is_contiguous();
  const std::optional<bool> known = IsContiguous(t.sym_sizes(), t.sym_strides());
  return known ? *known : impl->is_contiguous();
}

bool IsExpanded(const at::Tensor& t) {
  if (IsNonOverlappingAndDense(t)) return false;
  for (std::int64_t d = 0; d < t.dim(); ++d) {
    if (t.sym_stride(d) == 0 && t.sym_size(d) > 1) return true;
  }
  return false;
}

bool IsNonOverlappingAndDense(const at::Tensor& t) {
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  if (!impl->has_symbolic_sizes_strides()) return impl->is_non_overlapping_and_dense();
  const std::optional<bool> known = IsNonOverlappingAndDense(t.sym_sizes(), t.sym_strides());
  return known ? *known : impl->is_non_overlapping_and_dense();
}

OutputMeta LikeTensor(const at::Tensor& t, c10::ScalarType dtype) {
  if (IsNonOverlappingAndDense(t)) {  // also the strides of sizes 1
    OutputMeta out;
    out.sizes = ToDims(t.sym_sizes());
    out.strides = ToDims(t.sym_strides());
    out.dtype = dtype;
    return out;
  }
  // empty_like orders the dimensions of a strided tensor as TensorIterator does.
  OutputMeta out;
  const at::Tensor* operand = &t;
  if (!IteratorOutput(operand, dtype, &out)) out = Contiguous(ToDims(t.sym_sizes()), dtype);
  return out;
}

OutputMeta ContiguousLike(const at::Tensor& t) { return Contiguous(ToDims(t.sym_sizes()), t.scalar_type()); }

OutputMeta AliasOf(const at::Tensor& t, int alias_of) {
  OutputMeta out;
  out.sizes = ToDims(t.sym_sizes());
  out.strides = ToDims(t.sym_strides());
  out.offset = t.sym_storage_offset();
  out.dtype = t.scalar_type();
  out.alias_of = alias_of;
  return out;
}

bool Broadcast(c10::SymIntArrayRef a, c10::SymIntArrayRef b, Dims* out) {
  const std::size_t rank = std::max(a.size(), b.size());
  out->assign(rank, c10::SymInt(1));
  for (std::size_t i = 0; i < rank; ++i) {
    const bool has_a = i >= rank - a.size();
    const bool has_b = i >= rank - b.size();
    const c10::SymInt x = has_a ? a[i - (rank - a.size())] : c10::SymInt(1);
    const c10::SymInt y = has_b ? b[i - (rank - b.size())] : c10::SymInt(1);
    const bool equal = has_a && has_b && HintOf(x) == HintOf(y);  // then it need not matter whether they are 1
    if (!has_b || y.maybe_as_int() == 1) {
      (*out)[i] = x;
    } else if (!has_a || (!equal && IsOne(x))) {
      (*out)[i] = y;
    } else if (!equal && IsOne(y)) {
      (*out)[i] = x;
    } else {
      if (!x.sym_eq(y).guard_bool(__FILE__, __LINE__)) return false;
      (*out)[i] = x.is_symbolic() ? y : x;
    }
  }
  return true;
}

c10::ScalarType PromotedType(c10::ArrayRef<const at::Tensor*> operands) {
  at::native::ResultTypeState state = {};
  for (const at::Tensor* t : operands) state = at::native::update_result_type_state(*t, state);
  return at::native::result_type(state);
}

namespace {

bool SameSizes(c10::SymIntArrayRef a, c10::SymIntArrayRef b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].sym_eq(b[i]).guard_bool(__FILE__, __LINE__)) return false;
  }
  return true;
}

// On the CPU operands of another type than the common one are converted first.
bool IsConvertedToOtherLayout(const at::Tensor& t, c10::ScalarType common) {
  return common != c10::ScalarType::Undefined && t.device().is_cpu() && t.scalar_type() != common &&
         !IsNonOverlappingAndDense(t);
}

// TensorIterator's order of dimensions, fastest first, for operands already broadcast to `shape`.
class DimOrder {
 public:
  DimOrder(c10::ArrayRef<const at::Tensor*> operands, c10::ScalarType common, const Dims& shape) : shape_(shape) {
    for (const at::Tensor* t : operands) {
      const bool converted = IsConvertedToOtherLayout(*t, common);
      strides_.push_back(
          BroadcastStrides(t->sym_sizes(), converted ? LikeTensor(*t, common).strides : ToDims(t->sym_strides())));
    }
    const int rank = static_cast<int>(shape.size());
    for (int i = rank; i-- > 0;) perm_.push_back(i);
    for (int i = 1; i < rank; ++i) Insert(i);
  }

  Dims OutputStrides() const {
    Dims strides(shape_.size(), c10::SymInt(1));
    c10::SymInt next = 1;
    for (int dim : perm_) {
      strides[static_cast<std::size_t>(dim)] = next;
      next = next * shape_[static_cast<std::size_t>(dim)];
    }
    return strides;
  }
  bool IsRowMajor() const {
    for (std::size_t i = 0; i < perm_.size(); ++i) {
      if (perm_[i] != static_cast<int>(perm_.size() - 1 - i)) return false;
    }
    return true;
  }

 private:
  Dims BroadcastStrides(c10::SymIntArrayRef sizes, const Dims& strides) const {
    const std::size_t offset = shape_.size() - sizes.size();
    Dims out(shape_.size(), c10::SymInt(0));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      // Of equal sizes it need not matter whether they are 1.
      const bool equal = HintOf(sizes[i]) == HintOf(shape_[offset + i]) && sizes[i] == shape_[offset + i];
      if (equal || !IsOne(sizes[i]) || IsOne(shape_[offset + i])) out[offset + i] = strides[i];
    }
    return out;
  }
  // 1: dim0 comes after dim1; -1: before; 0: ambiguous.
  int Compare(int dim0, int dim1) const {
    for (const Dims& strides : strides_) {
      const c10::SymInt& a = strides[static_cast<std::size_t>(dim0)];
      const c10::SymInt& b = strides[static_cast<std::size_t>(dim1)];
      if (a == 0 || b == 0) continue;
      if (a < b) return -1;
      if (a > b) return 1;
      if (shape_[static_cast<std::size_t>(dim0)] > shape_[static_cast<std::size_t>(dim1)]) return 1;
    }
    return 0;
  }
  void Insert(int i) {
    int at = i;
    for (int before = i - 1; before >= 0; --before) {
      const int order = Compare(perm_[static_cast<std::size_t>(before)], perm_[static_cast<std::size_t>(at)]);
      if (order < 0) break;
      if (order > 0) {
        std::swap(perm_[static_cast<std::size_t>(before)], perm_[static_cast<std::size_t>(at)]);
        at = before;
      }
    }
  }

  const Dims& shape_;
  c10::SmallVector<Dims, 3> strides_;
  c10::SmallVector<int, 6> perm_;
};

bool AllChannelsLast(c10::ArrayRef<const at::Tensor*> operands) {
  for (const at::Tensor* t : operands) {
    if (!t->unsafeGetTensorImpl()->is_contiguous(c10::MemoryFormat::ChannelsLast)) return false;
  }
  return true;
}

bool AllDenseWithSameStrides(c10::ArrayRef<const at::Tensor*> operands) {
  for (const at::Tensor* t : operands) {
    if (!IsNonOverlappingAndDense(*t)) return false;
    if (!SameSizes(t->sym_strides(), operands[0]->sym_strides())) return false;
  }
  return true;
}

// Of sizes that the graph computes: the result is laid out row by row, whether some of them are 0 or 1 or not. Then
// nobody need ask.
bool IsRowMajorForAll(c10::ArrayRef<const at::Tensor*> operands, c10::ScalarType common, Dims* shape) {
  constexpr std::size_t kPlain = 3;  // of more dimensions the channels may be last
  const auto is_unbacked = [](const at::Tensor* t) {
    return t->unsafeGetTensorImpl()->has_symbolic_sizes_strides() &&
           std::any_of(t->sym_sizes().begin(), t->sym_sizes().end(), IsUnbacked);
  };
  if (std::none_of(operands.begin(), operands.end(), is_unbacked)) return false;
  *shape = ToDims(operands[0]->sym_sizes());
  for (const at::Tensor* t : operands.slice(1)) {
    Dims wider;
    if (!Broadcast(*shape, t->sym_sizes(), &wider)) return false;
    *shape = std::move(wider);
  }
  return shape->size() <= kPlain && DimOrder(operands, common, *shape).IsRowMajor();
}

}  // namespace

bool IteratorOutput(c10::ArrayRef<const at::Tensor*> operands, c10::ScalarType dtype, OutputMeta* out,
                    c10::ScalarType common, bool beside_number) {
  Dims shape;
  if (IsRowMajorForAll(operands, common, &shape)) {
    *out = Contiguous(std::move(shape), dtype);
    return true;
  }
  shape = ToDims(operands[0]->sym_sizes());
  bool same_shape = !beside_number;
  bool all_contiguous = IsContiguous(*operands[0]);
  for (const at::Tensor* t : operands.slice(1)) {
    all_contiguous = all_contiguous && IsContiguous(*t);
    if (SameSizes(t->sym_sizes(), shape)) continue;
    same_shape = false;
    Dims wider;
    if (!Broadcast(shape, t->sym_sizes(), &wider)) return false;
    shape = std::move(wider);
  }
  out->dtype = dtype;
  if (same_shape && all_contiguous) {
    out->strides = ContiguousStrides(shape);
  } else if (same_shape && AllChannelsLast(operands)) {
    *out = WithFormat(std::move(shape), dtype, c10::MemoryFormat::ChannelsLast);
    return true;
  } else if (same_shape && AllDenseWithSameStrides(operands)) {
    out->strides = ToDims(operands[0]->sym_strides());
  } else {
    DimOrder order(operands, common, shape);
    out->strides = order.IsRowMajor() ? ContiguousStrides(shape) : order.OutputStrides();
  }
  out->sizes = std::move(shape);
  return true;
}

}  // namespace framefuse::tracing
