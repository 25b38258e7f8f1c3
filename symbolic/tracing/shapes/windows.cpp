// Windows over images (pooling, im2col), grids that sample them, and the gradients of both. The CPU's kernels make
// contiguous outputs of contiguous inputs; others are left to torch.
#include "backends/graph/operators.h"
#include "symbolic/tracing/shapes/shapes.h"

namespace framefuse::tracing {
namespace {

bool IsPlain(const at::Tensor& x) {
  return x.device().is_cpu() && c10::isFloatingType(x.scalar_type()) && IsContiguous(x) &&
         x.suggest_memory_format() == c10::MemoryFormat::Contiguous && x.sym_numel() != 0;
}

OutputMeta Undefined() {
  OutputMeta m;
  m.defined = false;
  return m;
}

std::int64_t At(const std::vector<std::int64_t>& v, std::size_t i) { return v.size() == 1 ? v[0] : v[i]; }

struct Window {
  std::int64_t kernel, stride, padding, dilation;
};

// How many of them fit; false: none.
bool Count(const c10::SymInt& size, const Window& w, bool up, c10::SymInt* count) {
  if (w.kernel < 1 || w.stride < 1 || w.dilation < 1 || w.padding < 0) return false;
  const c10::SymInt room = size + 2 * w.padding - w.dilation * (w.kernel - 1) - 1;
  if (room < 0) return false;
  *count = (room + (up ? w.stride - 1 : 0)) / w.stride + 1;
  // The last one begins inside the input, or in the padding before it.
  if (up && (*count - 1) * w.stride >= size + w.padding) *count = *count - 1;
  return *count > 0;
}

// (self, kernel_size, stride, padding, dilation, ceil_mode)
bool MaxPool3d(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  if ((x.dim() != 4 && x.dim() != 5) || !IsPlain(x)) return false;
  const auto kernel = args[1].toIntVector(), padding = args[3].toIntVector(), dilation = args[4].toIntVector();
  const auto stride = args[2].toIntVector().empty() ? kernel : args[2].toIntVector();
  Dims sizes = ToDims(x.sym_sizes());
  for (std::size_t i = 0; i < 3; ++i) {
    const Window window = {At(kernel, i), At(stride, i), At(padding, i), At(dilation, i)};
    c10::SymInt& size = sizes[sizes.size() - 3 + i];
    c10::SymInt count;
    if (window.padding > window.kernel / 2 || !Count(size, window, args[5].toBool(), &count)) return false;
    size = count;
  }
  outputs.assign(2, Contiguous(std::move(sizes), x.scalar_type()));
  outputs[1].dtype = c10::ScalarType::Long;
  return true;
}

// (grad_output, self, …)
bool LikeSecond(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[1].toTensor();
  if (!IsPlain(x) || !IsPlain(args[0].toTensor())) return false;
  outputs.assign(1, ContiguousLike(x));
  return true;
}

// How many windows there are in an image; false: none fits.
bool Columns(const c10::SymInt& height, const c10::SymInt& width, Arguments window, c10::SymInt* count) {
  const auto kernel = window[0].toIntVector(), dilation = window[1].toIntVector();
  const auto padding = window[2].toIntVector(), stride = window[3].toIntVector();
  if (kernel.size() != 2 || dilation.size() != 2 || padding.size() != 2 || stride.size() != 2) return false;
  c10::SymInt down, across;
  if (!Count(height, {kernel[0], stride[0], padding[0], dilation[0]}, false, &down)) return false;
  if (!Count(width, {kernel[1], stride[1], padding[1], dilation[1]}, false, &across)) return false;
  *count = down * across;
  return true;
}

// (self, kernel_size, dilation, padding, stride)
bool Im2Col(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const std::int64_t rank = x.dim();
  if ((rank != 3 && rank != 4) || !IsPlain(x)) return false;
  c10::SymInt columns;
  if (!Columns(x.sym_size(rank - 2), x.sym_size(rank - 1), args.slice(1), &columns)) return false;
  const auto kernel = args[1].toIntVector();
  Dims sizes;
  if (rank == 4) sizes.push_back(x.sym_size(0));
  sizes.push_back(x.sym_size(rank - 3) * (kernel[0] * kernel[1]));
  sizes.push_back(std::move(columns));
  outputs.assign(1, Contiguous(std::move(sizes), x.scalar_type()));
  return true;
}

// (self, output_size, kernel_size, dilation, padding, stride)
bool Col2Im(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const Dims image = SymInts(args[1]);
  if ((x.dim() != 2 && x.dim() != 3) || image.size() != 2 || !IsPlain(x)) return false;
  if (image[0] < 1 || image[1] < 1) return false;
  c10::SymInt columns;
  if (!Columns(image[0], image[1], args.slice(2), &columns) || columns != x.sym_size(-1)) return false;
  const auto kernel = args[2].toIntVector();
  const std::int64_t area = kernel[0] * kernel[1];
  if (x.sym_size(-2) % area != 0) return false;
  Dims sizes;
  if (x.dim() == 3) sizes.push_back(x.sym_size(0));
  sizes.push_back(x.sym_size(-2) / area);
  sizes.insert(sizes.end(), image.begin(), image.end());
  outputs.assign(1, Contiguous(std::move(sizes), x.scalar_type()));
  return true;
}

bool GridFits(const at::Tensor& x, const at::Tensor& grid, std::int64_t rank) {
  return x.dim() == rank && grid.dim() == rank && IsPlain(x) && IsPlain(grid) &&
         x.scalar_type() == grid.scalar_type() && x.sym_size(0) == grid.sym_size(0) && grid.sym_size(-1) == rank - 2;
}

// (input, grid, interpolation_mode, padding_mode, align_corners)
template <std::int64_t rank>
bool GridSampler(Arguments args, Outputs& outputs) {
  const at::Tensor &x = args[0].toTensor(), &grid = args[1].toTensor();
  if (!GridFits(x, grid, rank)) return false;
  Dims sizes = {x.sym_size(0), x.sym_size(1)};
  for (std::int64_t d = 1; d < rank - 1; ++d) sizes.push_back(grid.sym_size(d));
  outputs.assign(1, Contiguous(std::move(sizes), x.scalar_type()));
  return true;
}

// (grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask)
template <std::int64_t rank>
bool GridSamplerBackward(Arguments args, Outputs& outputs) {
  const at::Tensor &x = args[1].toTensor(), &grid = args[2].toTensor();
  if (!GridFits(x, grid, rank)) return false;
  outputs.push_back(args[6].toBoolList()[0] ? ContiguousLike(x) : Undefined());
  outputs.push_back(ContiguousLike(grid));
  return true;
}

// (theta, size, align_corners)
bool AffineGrid(Arguments args, Outputs& outputs) {
  const at::Tensor& theta = args[0].toTensor();
  const Dims image = SymInts(args[1]);
  const auto places = static_cast<std::int64_t>(image.size()) - 2;
  if ((places != 2 && places != 3) || theta.dim() != 3 || !IsPlain(theta)) return false;
  if (theta.sym_size(0) != image[0] || theta.sym_size(1) != places || theta.sym_size(2) != places + 1) return false;
  Dims sizes = {image[0]};
  for (std::size_t d = 2; d < image.size(); ++d) {
    if (image[d] < 1) return false;
    sizes.push_back(image[d]);
  }
  sizes.emplace_back(places);
  outputs.assign(1, Contiguous(std::move(sizes), theta.scalar_type()));
  return true;
}

// (grad, size, align_corners): of a product that is transposed.
bool AffineGridBackward(Arguments args, Outputs& outputs) {
  const at::Tensor& grad = args[0].toTensor();
  const Dims image = SymInts(args[1]);
  const auto places = static_cast<std::int64_t>(image.size()) - 2;
  if ((places != 2 && places != 3) || !IsPlain(grad)) return false;
  outputs.assign(1, Contiguous({image[0], places, places + 1}, grad.scalar_type()));
  outputs[0].strides = {c10::SymInt(places * (places + 1)), c10::SymInt(1), c10::SymInt(places)};
  return true;
}

// (self, indices, output_size)
bool MaxUnpool2d(Arguments args, Outputs& outputs) {
  const at::Tensor &x = args[0].toTensor(), &indices = args[1].toTensor();
  const Dims image = SymInts(args[2]);
  if ((x.dim() != 3 && x.dim() != 4) || image.size() != 2 || !IsPlain(x) || !IsContiguous(indices)) return false;
  if (indices.scalar_type() != c10::ScalarType::Long || indices.sym_sizes() != x.sym_sizes()) return false;
  if (image[0] < 1 || image[1] < 1) return false;
  Dims sizes = ToDims(x.sym_sizes());
  sizes[sizes.size() - 2] = image[0];
  sizes[sizes.size() - 1] = image[1];
  outputs.assign(1, Contiguous(std::move(sizes), x.scalar_type()));
  return true;
}

// (self, output_size)
bool AdaptiveAveragePool3d(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const Dims image = SymInts(args[1]);
  if ((x.dim() != 4 && x.dim() != 5) || image.size() != 3 || !IsPlain(x)) return false;
  Dims sizes = ToDims(x.sym_sizes());
  for (std::size_t i = 0; i < 3; ++i) {
    if (image[i] < 1) return false;
    sizes[sizes.size() - 3 + i] = image[i];
  }
  outputs.assign(1, Contiguous(std::move(sizes), x.scalar_type()));
  return true;
}

// (self, groups)
bool ShuffleChannels(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const c10::SymInt groups = args[1].toSymInt();
  if (x.dim() < 3 || !IsPlain(x) || groups < 1 || x.sym_size(1) % groups != 0) return false;
  outputs.assign(1, ContiguousLike(x));
  return true;
}

using enum ir::OpName;

constexpr ShapeRow kRows[] = {
    {kChannelShuffle, ShuffleChannels},
    {kNativeChannelShuffle, ShuffleChannels},
    {k_AdaptiveAvgPool3d, AdaptiveAveragePool3d},
    {k_AdaptiveAvgPool3dBackward, LikeSecond},
    {kMaxPool3dWithIndices, MaxPool3d},
    {kMaxPool3dWithIndicesBackward, LikeSecond},
    {kIm2col, Im2Col},
    {kCol2im, Col2Im},
    {kGridSampler2d, GridSampler<4>},
    {kGridSampler3d, GridSampler<5>},
    {kGridSampler2dBackward, GridSamplerBackward<4>},
    {kGridSampler3dBackward, GridSamplerBackward<5>},
    {kAffineGridGenerator, AffineGrid},
    {kAffineGridGeneratorBackward, AffineGridBackward},
    {kMaxUnpool2d, MaxUnpool2d},
};

}  // namespace

c10::ArrayRef<ShapeRow> WindowShapes() { return kRows; }

}  // namespace framefuse::tracing
