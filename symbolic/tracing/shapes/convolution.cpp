// Convolution, its backward, and pooling. The traps are the memory formats: an output is channels_last if the
// backend that eager would choose makes it so.
#include <ATen/native/ConvUtils.h>

#include "backends/graph/operators.h"
#include "symbolic/tracing/shapes/shapes.h"

namespace framefuse::tracing {
namespace {

const c10::SymInt& At(const Dims& v, std::size_t i) { return v.size() == 1 ? v[0] : v[i]; }

struct Window {
  Dims stride, padding, dilation, output_padding;
  bool transposed;
  c10::SymInt groups;
};

// A convolution's arguments from `first` on: stride, padding, dilation, transposed, output_padding, groups.
Window WindowOf(Arguments args, std::size_t first) {
  return {.stride = SymInts(args[first]),
          .padding = SymInts(args[first + 1]),
          .dilation = SymInts(args[first + 2]),
          .output_padding = SymInts(args[first + 4]),
          .transposed = args[first + 3].toBool(),
          .groups = args[first + 5].toSymInt()};
}

// torch's own choice: cuDNN and oneDNN keep channels_last, others (for doubles, say) do not.
c10::MemoryFormat FormatOfBackend(const at::Tensor& x, const at::Tensor& w, const Window& window) {
  const at::native::ConvBackend backend =
      at::native::select_conv_backend(x, w, std::nullopt, window.stride, window.padding, window.dilation,
                                      window.transposed, window.output_padding, window.groups, std::nullopt);
  return at::native::_determine_backend_memory_format(x, w, backend);
}

// The format that the backend gives to its outputs; nullopt: not known here.
std::optional<c10::MemoryFormat> ConvolutionFormat(const at::Tensor& x, const at::Tensor& w, const Window& window) {
  const c10::MemoryFormat fx = x.suggest_memory_format();
  const c10::MemoryFormat fw = w.suggest_memory_format();
  if (fx == c10::MemoryFormat::Contiguous && fw == c10::MemoryFormat::Contiguous) return fx;
  // 1-d and empty inputs have rules of their own.
  if (x.dim() < 4 || x.sym_numel() == 0) return std::nullopt;
  return FormatOfBackend(x, w, window);
}

bool IsKnownType(const at::Tensor& x, const at::Tensor& w) {
  return x.scalar_type() == w.scalar_type() && c10::isFloatingType(x.scalar_type()) && x.device() == w.device();
}

bool OutputSizes(Arguments args, Dims* out) {
  const at::Tensor& x = args[0].toTensor();
  const at::Tensor& w = args[1].toTensor();
  const bool transposed = args[6].toBool();
  const std::int64_t groups = args[8].toSymInt().guard_int(__FILE__, __LINE__);
  const Dims stride = SymInts(args[3]), padding = SymInts(args[4]), dilation = SymInts(args[5]);
  const Dims extra = SymInts(args[7]);
  const c10::SymInt channels = x.sym_size(1);
  if (groups < 1 || channels != (transposed ? w.sym_size(0) : w.sym_size(1) * groups)) return false;
  *out = {x.sym_size(0), transposed ? w.sym_size(1) * groups : w.sym_size(0)};
  for (std::int64_t d = 0; d < x.dim() - 2; ++d) {
    const auto i = static_cast<std::size_t>(d);
    const c10::SymInt &s = At(stride, i), &p = At(padding, i), &dil = At(dilation, i);
    if (s <= 0 || p < 0 || dil <= 0) return false;
    const c10::SymInt size = x.sym_size(d + 2), kernel = dil * (w.sym_size(d + 2) - 1);
    const c10::SymInt span =
        transposed ? (size - 1) * s - p * 2 + kernel + At(extra, i) + 1 : size + p * 2 - kernel - 1;
    if (span < 0) return false;
    out->push_back(transposed ? span : span / s + 1);
  }
  return true;
}

// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
bool Convolution(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const at::Tensor& w = args[1].toTensor();
  if (x.dim() < 3 || x.dim() != w.dim() || !IsKnownType(x, w)) return false;
  if (x.sym_numel() == 0 || w.sym_numel() == 0) return false;  // without channels the result has none either
  if (const at::Tensor* bias = OptionalTensor(args[2])) {
    if (bias->scalar_type() != x.scalar_type() || bias->dim() != 1) return false;
  }
  Dims sizes;
  if (!OutputSizes(args, &sizes)) return false;
  const auto format = ConvolutionFormat(x, w, WindowOf(args, 3));
  if (!format) return false;
  if (const at::Tensor* bias = OptionalTensor(args[2]); bias != nullptr && bias->sym_size(0) != sizes[1]) return false;
  outputs.assign(1, WithFormat(std::move(sizes), x.scalar_type(), *format));
  return true;
}

OutputMeta Undefined() {
  OutputMeta m;
  m.defined = false;
  return m;
}

// (grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask)
bool ConvolutionBackward(Arguments args, Outputs& outputs) {
  const at::Tensor& grad = args[0].toTensor();
  const at::Tensor& x = args[1].toTensor();
  const at::Tensor& w = args[2].toTensor();
  if (x.dim() < 3 || grad.dim() != x.dim() || !IsKnownType(x, w)) return false;
  const auto format = ConvolutionFormat(x, w, WindowOf(args, 4));
  if (!format) return false;
  const auto mask = args[10].toBoolList();
  outputs.push_back(mask[0] ? WithFormat(ToDims(x.sym_sizes()), x.scalar_type(), *format) : Undefined());
  outputs.push_back(mask[1] ? WithFormat(ToDims(w.sym_sizes()), w.scalar_type(), *format) : Undefined());
  outputs.push_back(mask[2] ? Contiguous({grad.sym_size(1)}, x.scalar_type()) : Undefined());
  return true;
}

bool HasPlainFormat(const at::Tensor& x) { return x.is_contiguous(x.suggest_memory_format()); }

// (self, output_size)
bool AdaptiveAveragePool2d(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const Dims size = SymInts(args[1]);
  if ((x.dim() != 4 && x.dim() != 3) || size.size() != 2 || !HasPlainFormat(x)) return false;
  if (!c10::isFloatingType(x.scalar_type()) || x.sym_numel() == 0) return false;
  Dims sizes = ToDims(x.sym_sizes());
  sizes[sizes.size() - 2] = size[0];
  sizes[sizes.size() - 1] = size[1];
  outputs.assign(1, WithFormat(std::move(sizes), x.scalar_type(), x.suggest_memory_format()));
  return true;
}

// (grad_output, self)
bool AdaptiveAveragePool2dBackward(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[1].toTensor();
  if (!HasPlainFormat(x) || x.suggest_memory_format() != c10::MemoryFormat::Contiguous) return false;
  outputs.assign(1, ContiguousLike(x));
  return true;
}

// (self, padding): two numbers a dimension, the last one first.
template <std::size_t padded>
bool ReflectionPad(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const Dims padding = SymInts(args[1]);
  const auto rank = static_cast<std::size_t>(x.dim());
  if (padding.size() != 2 * padded || (rank != padded + 1 && rank != padded + 2)) return false;
  if (!IsContiguous(x) || x.suggest_memory_format() != c10::MemoryFormat::Contiguous || x.sym_numel() == 0) {
    return false;
  }
  Dims sizes = ToDims(x.sym_sizes());
  for (std::size_t i = 0; i < padded; ++i) {
    c10::SymInt& size = sizes[rank - 1 - i];
    const c10::SymInt &before = padding[2 * i], &after = padding[2 * i + 1];
    if (before < 0 || after < 0 || before >= size || after >= size) return false;
    size = size + before + after;
  }
  outputs.assign(1, Contiguous(std::move(sizes), x.scalar_type()));
  return true;
}

// (grad_output, self, padding)
bool ReflectionPadBackward(Arguments args, Outputs& outputs) {
  const at::Tensor &grad = args[0].toTensor(), &x = args[1].toTensor();
  if (!IsContiguous(x) || x.suggest_memory_format() != c10::MemoryFormat::Contiguous) return false;
  if (grad.dim() != x.dim() || x.sym_numel() == 0 || x.is_cuda()) return false;
  outputs.assign(1, ContiguousLike(x));
  return true;
}

// (self, upscale_factor)
bool PixelShuffle(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const std::int64_t factor = args[1].toInt();
  if (x.dim() != 4 || factor < 1 || !IsContiguous(x) || x.sym_numel() == 0) return false;
  if (x.suggest_memory_format() != c10::MemoryFormat::Contiguous || x.sym_size(1) % (factor * factor) != 0) {
    return false;
  }
  Dims sizes = {x.sym_size(0), x.sym_size(1) / (factor * factor), x.sym_size(2) * factor, x.sym_size(3) * factor};
  outputs.assign(1, Contiguous(std::move(sizes), x.scalar_type()));
  return true;
}

// (self, downscale_factor)
bool PixelUnshuffle(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const std::int64_t factor = args[1].toInt();
  if (x.dim() != 4 || factor < 1 || !IsContiguous(x) || x.sym_numel() == 0) return false;
  if (x.suggest_memory_format() != c10::MemoryFormat::Contiguous) return false;
  if (x.sym_size(2) % factor != 0 || x.sym_size(3) % factor != 0) return false;
  Dims sizes = {x.sym_size(0), x.sym_size(1) * (factor * factor), x.sym_size(2) / factor, x.sym_size(3) / factor};
  outputs.assign(1, Contiguous(std::move(sizes), x.scalar_type()));
  return true;
}

using enum ir::OpName;

constexpr ShapeRow kRows[] = {
    {kReflectionPad1d, ReflectionPad<1>},
    {kReflectionPad2d, ReflectionPad<2>},
    {kReflectionPad3d, ReflectionPad<3>},
    {kReplicationPad2dBackward, ReflectionPadBackward},
    {kReflectionPad1dBackward, ReflectionPadBackward},
    {kReflectionPad2dBackward, ReflectionPadBackward},
    {kReflectionPad3dBackward, ReflectionPadBackward},
    {kPixelShuffle, PixelShuffle},
    {kPixelUnshuffle, PixelUnshuffle},
    {kConvolution, Convolution},
    {kConvolutionBackward, ConvolutionBackward},
    {k_AdaptiveAvgPool2d, AdaptiveAveragePool2d},
    {k_AdaptiveAvgPool2dBackward, AdaptiveAveragePool2dBackward},
};

}  // namespace

c10::ArrayRef<ShapeRow> ConvolutionShapes() { return kRows; }

}  // namespace framefuse::tracing
