// Scaled dot product attention on the CPU, the one on CUDA that takes single precision (the others go to torch's meta
// kernels), and the encoder layer in one.
#include "symbolic/tracing/shapes/shapes.h"

namespace framefuse::tracing {
namespace {

// The kernel works on (batch, sequence, head, element) and transposes at the end.
OutputMeta SequenceMajor(Dims sizes, c10::ScalarType dtype) {
  OutputMeta m;
  std::swap(sizes[1], sizes[2]);
  m = Contiguous(std::move(sizes), dtype);
  std::swap(m.sizes[1], m.sizes[2]);
  std::swap(m.strides[1], m.strides[2]);
  return m;
}

// (query, key, value, dropout_p, is_causal, *, attn_mask, scale)
bool FlashForCpu(Arguments args, Outputs& outputs) {
  const at::Tensor& q = args[0].toTensor();
  const at::Tensor& v = args[2].toTensor();
  if (q.dim() != 4 || v.dim() != 4 || q.sym_size(3) != v.sym_size(3)) return false;
  const bool half = q.scalar_type() == c10::ScalarType::Half || q.scalar_type() == c10::ScalarType::BFloat16;
  outputs.push_back(LikeTensor(q, q.scalar_type()));
  Dims rows = {q.sym_size(0), q.sym_size(1), q.sym_size(2)};
  OutputMeta sums = Contiguous({rows[0], rows[2], rows[1]}, half ? c10::ScalarType::Float : q.scalar_type());
  std::swap(sums.sizes[1], sums.sizes[2]);
  std::swap(sums.strides[1], sums.strides[2]);
  outputs.push_back(std::move(sums));
  return true;
}

// (grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask, scale)
bool FlashForCpuBackward(Arguments args, Outputs& outputs) {
  for (std::size_t i = 1; i <= 3; ++i) {
    const at::Tensor& t = args[i].toTensor();
    if (t.dim() != 4) return false;
    outputs.push_back(SequenceMajor(ToDims(t.sym_sizes()), t.scalar_type()));
  }
  return true;
}

// (query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, *, scale)
bool Efficient(Arguments args, Outputs& outputs) {
  constexpr std::int64_t kRowsOfSums = 32;  // the kernel's, which writes whole ones
  const at::Tensor& q = args[0].toTensor();
  const at::Tensor& v = args[2].toTensor();
  if (q.dim() != 4 || v.dim() != 4 || !q.is_cuda() || !args[4].isBool()) return false;
  outputs.push_back(SequenceMajor({q.sym_size(0), q.sym_size(1), q.sym_size(2), v.sym_size(3)}, q.scalar_type()));
  const c10::SymInt rows = (q.sym_size(2) + (kRowsOfSums - 1)) / kRowsOfSums * kRowsOfSums;
  const c10::SymInt sums = args[4].toBool() ? rows : c10::SymInt(0);
  outputs.push_back(Contiguous({q.sym_size(0), q.sym_size(1), sums}, c10::ScalarType::Float));
  for (int i = 0; i < 2; ++i) outputs.push_back(Contiguous({}, c10::ScalarType::Long));  // of the random numbers
  return true;
}

// (grad_out, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, …)
bool EfficientBackward(Arguments args, Outputs& outputs) {
  if (args[4].isTensor() && args[4].toTensor().defined()) return false;
  for (std::size_t i = 1; i <= 3; ++i) {
    const at::Tensor& t = args[i].toTensor();
    if (t.dim() != 4 || !t.is_cuda()) return false;
    outputs.push_back(SequenceMajor(ToDims(t.sym_sizes()), t.scalar_type()));
  }
  OutputMeta bias;
  bias.defined = false;
  outputs.push_back(std::move(bias));
  return true;
}

// (src, …): the last step is a matrix product or a norm of one, whatever the strides of `src`.
bool TransformerEncoderLayer(Arguments args, Outputs& outputs) {
  const at::Tensor& src = args[0].toTensor();
  if (src.dim() != 3) return false;
  outputs.push_back(Contiguous(ToDims(src.sym_sizes()), src.scalar_type()));
  return true;
}

constexpr ShapeRow kRows[] = {
    {"aten::_scaled_dot_product_flash_attention_for_cpu", FlashForCpu},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", FlashForCpuBackward},
    {"aten::_scaled_dot_product_efficient_attention", Efficient},
    {"aten::_scaled_dot_product_efficient_attention_backward", EfficientBackward},
    {"aten::_transformer_encoder_layer_fwd", TransformerEncoderLayer},
};

}  // namespace

c10::ArrayRef<ShapeRow> AttentionShapes() { return kRows; }

}  // namespace framefuse::tracing
