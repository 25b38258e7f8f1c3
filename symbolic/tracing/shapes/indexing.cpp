// Embedding, gathers, concatenation and the backwards of slicing.
#include <algorithm>

#include "backends/graph/operators.h"
#include "symbolic/tracing/shapes/shapes.h"

namespace framefuse::tracing {
namespace {

bool IsIndexType(const at::Tensor& t) {
  return t.scalar_type() == c10::ScalarType::Long || t.scalar_type() == c10::ScalarType::Int;
}

// (weight, indices, …)
bool Embedding(Arguments args, Outputs& outputs) {
  const at::Tensor& weight = args[0].toTensor();
  const at::Tensor& indices = args[1].toTensor();
  if (weight.dim() != 2 || !IsIndexType(indices)) return false;
  Dims sizes = ToDims(indices.sym_sizes());
  sizes.push_back(weight.sym_size(1));
  outputs.assign(1, Contiguous(std::move(sizes), weight.scalar_type()));
  return true;
}

// (grad_output, indices, num_weights, …)
bool EmbeddingDenseBackward(Arguments args, Outputs& outputs) {
  const at::Tensor& grad = args[0].toTensor();
  if (grad.dim() < 1) return false;
  outputs.assign(1, Contiguous({args[2].toSymInt(), grad.sym_size(-1)}, grad.scalar_type()));
  return true;
}

// (self, dim, index)
bool IndexSelect(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const at::Tensor& index = args[2].toTensor();
  auto dim = WrapDim(args[1].toInt(), x.dim());
  if (!dim || x.dim() == 0 || index.dim() > 1 || !IsIndexType(index)) return false;
  Dims sizes = ToDims(x.sym_sizes());
  sizes[static_cast<std::size_t>(*dim)] = index.sym_numel();
  outputs.assign(1, Contiguous(std::move(sizes), x.scalar_type()));
  return true;
}

// (self, dim, index, source, alpha)
bool IndexAdd(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const at::Tensor& index = args[2].toTensor();
  const at::Tensor& source = args[3].toTensor();
  const auto dim = WrapDim(args[1].toInt(), x.dim());
  if (!dim || x.dim() == 0 || source.dim() != x.dim() || index.dim() != 1 || !IsIndexType(index)) return false;
  if (x.scalar_type() != source.scalar_type() || x.device() != source.device()) return false;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    if (source.sym_size(d) != (d == *dim ? index.sym_size(0) : x.sym_size(d))) return false;
    if (source.sym_size(d) == 0) return false;  // torch's kernel for metadata refuses what eager takes
  }
  outputs.assign(1, Contiguous(ToDims(x.sym_sizes()), x.scalar_type()));
  return true;
}

// cat of contiguous tensors of one type; anything else has format rules of its own.
bool Cat(Arguments args, Outputs& outputs) {
  const auto tensors = args[0].toListRef();
  // As torch: what has one dimension, and no elements, is of any shape. Caches of keys and values begin so.
  const auto is_skipped = [](const c10::IValue& v) {
    const at::Tensor& t = v.toTensor();
    return t.dim() == 1 && !t.sym_size(0).is_symbolic() && t.sym_size(0) == 0;
  };
  const auto* shaped = std::find_if_not(tensors.begin(), tensors.end(), is_skipped);
  if (shaped == tensors.end()) return false;
  const at::Tensor& first = shaped->toTensor();
  auto dim = WrapDim(args[1].toInt(), first.dim());
  if (!dim || first.dim() == 0) return false;
  const auto d = static_cast<std::size_t>(*dim);
  Dims sizes = ToDims(first.sym_sizes());
  sizes[d] = 0;
  for (const c10::IValue& v : tensors) {
    const at::Tensor& t = v.toTensor();
    if (t.scalar_type() != first.scalar_type() || t.device() != first.device()) return false;
    if (is_skipped(v)) continue;
    if (t.dim() != first.dim()) return false;
    if (t.suggest_memory_format() != c10::MemoryFormat::Contiguous) return false;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (i != d && t.sym_size(static_cast<std::int64_t>(i)) != sizes[i]) return false;
    }
    sizes[d] = sizes[d] + t.sym_size(*dim);
  }
  outputs.assign(1, Contiguous(std::move(sizes), first.scalar_type()));
  return true;
}

// (self, pad, value)
bool ConstantPad(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const Dims pads = SymInts(args[1]);
  Dims sizes = ToDims(x.sym_sizes());
  if (pads.size() % 2 != 0 || pads.size() > 2 * sizes.size()) return false;
  bool grows = false;
  for (std::size_t i = 0; i < pads.size(); ++i) {
    grows = grows || pads[i] > 0;
    const std::size_t d = sizes.size() - 1 - i / 2;
    sizes[d] = sizes[d] + pads[i];
    if (i % 2 == 1 && pads[i - 1] + pads[i] < 0 && sizes[d] < 0) return false;
  }
  const c10::MemoryFormat format = x.suggest_memory_format();
  // Else it is a copy of a part, laid out as that.
  if (!grows && (!IsContiguous(x) || format != c10::MemoryFormat::Contiguous)) return false;
  outputs.assign(1, WithFormat(std::move(sizes), x.scalar_type(), format));
  return true;
}

// (self, shifts, dims): two parts that change places, for each dimension.
bool Roll(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const std::size_t shifts = SymInts(args[1]).size();
  const auto dims = args[2].toIntVector();
  if (x.dim() == 0 || !IsContiguous(x) || x.sym_numel() == 0 || shifts == 0) return false;
  if (dims.empty() ? shifts != 1 : shifts != dims.size()) return false;
  for (const std::int64_t d : dims) {
    if (!WrapDim(d, x.dim())) return false;
  }
  // Or what is put together may be taken for one with the channels last.
  constexpr std::int64_t kPlain = 3;
  if (x.dim() > kPlain && x.sym_size(-1) < 2) return false;
  outputs.assign(1, ContiguousLike(x));
  return true;
}

// (self, repeats): torch's composite kernel looks at addresses.
bool Repeat(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  Dims sizes = SymInts(args[1]);
  const std::size_t rank = static_cast<std::size_t>(x.dim());
  if (sizes.size() < rank || !NonNegative(sizes)) return false;
  for (std::size_t i = 0; i < rank; ++i) {
    sizes[sizes.size() - rank + i] *= x.sym_size(static_cast<std::int64_t>(i));
  }
  outputs.assign(1, Contiguous(std::move(sizes), x.scalar_type()));
  return true;
}

bool Stack(Arguments args, Outputs& outputs) {
  const auto tensors = args[0].toListRef();
  if (tensors.empty()) return false;
  const at::Tensor& first = tensors[0].toTensor();
  auto dim = WrapDim(args[1].toInt(), first.dim() + 1);
  if (!dim) return false;
  Dims sizes = ToDims(first.sym_sizes());
  for (const c10::IValue& v : tensors) {
    const at::Tensor& t = v.toTensor();
    if (t.dim() != first.dim() || t.scalar_type() != first.scalar_type()) return false;
    if (t.dim() > 2 && !IsContiguous(t)) return false;  // else it has no format but this one
    if (t.suggest_memory_format() != c10::MemoryFormat::Contiguous) return false;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (t.sym_size(static_cast<std::int64_t>(i)) != sizes[i]) return false;
    }
  }
  sizes.insert(sizes.begin() + *dim, c10::SymInt(static_cast<std::int64_t>(tensors.size())));
  outputs.assign(1, Contiguous(std::move(sizes), first.scalar_type()));
  return true;
}

// select_backward, slice_backward and their like: zeros of the given sizes, then a copy into a view.
bool ViewBackward(Arguments args, Outputs& outputs) {
  outputs.assign(1, Contiguous(SymInts(args[1]), args[0].toTensor().scalar_type()));
  return true;
}

bool Flip(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  outputs.assign(1, LikeTensor(x, x.scalar_type()));
  return true;
}

// torch's meta kernel has the columns first; the CPU's does not.
bool NonzeroStatic(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const c10::SymInt size = args[1].toSymInt();
  if (!x.device().is_cpu() || size.is_symbolic() || size < 0) return false;
  outputs.assign(1, Contiguous({size, c10::SymInt(x.dim())}, c10::ScalarType::Long));
  return true;
}

using enum ir::OpName;

constexpr ShapeRow kRows[] = {
    {kNonzeroStatic, NonzeroStatic},
    {kFlip, Flip},
    {kEmbedding, Embedding},
    {kEmbeddingDenseBackward, EmbeddingDenseBackward},
    {kIndexSelect, IndexSelect},
    {kIndexAdd, IndexAdd},
    {kCat, Cat},
    {kStack, Stack},
    {kRepeat, Repeat},
    {kConstantPadNd, ConstantPad},
    {kRoll, Roll},
    {kSelectBackward, ViewBackward},
    {kSliceBackward, ViewBackward},
    {kDiagonalBackward, ViewBackward},
    {kUnfoldBackward, ViewBackward},
};

}  // namespace

c10::ArrayRef<ShapeRow> IndexingShapes() { return kRows; }

}  // namespace framefuse::tracing
