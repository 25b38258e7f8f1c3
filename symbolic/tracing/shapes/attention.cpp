// Scaled dot product attention on the CPU, the one on CUDA that takes single precision (the others go to torch's meta
// kernels), and the encoder layer in one.
#include "backends/graph/operators.h"
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

struct Network {
  const at::Tensor* input;
  std::vector<at::Tensor> states, weights;
  std::int64_t directions;
};

// (kind, …, input, states, weights, has_biases, layers, both_ways, train), `first` the input's place. All of one type,
// on the CPU, and of sizes that fit: eager raises otherwise.
bool IsNetwork(Arguments args, std::size_t first, Network* n) {
  n->input = &args[first].toTensor();
  n->states = args[first + 1].toTensorVector();
  n->weights = args[first + 2].toTensorVector();
  const std::string& kind = args[0].toStringRef();
  const bool has_biases = args[first + 3].toBool();
  n->directions = args[first + 5].toBool() ? 2 : 1;
  const std::int64_t layers = args[first + 4].toInt();
  const at::Tensor& x = *n->input;
  const std::size_t each = has_biases ? 4 : 2;
  if (x.dim() != 3 || layers < 1 || n->states.size() != (kind == "lstm" ? 2U : 1U) || x.sym_numel() == 0) return false;
  if (n->weights.size() != each * static_cast<std::size_t>(layers * n->directions)) return false;
  const std::int64_t gates = kind == "lstm" ? 4 : kind == "gru" ? 3 : 1;
  const auto is_alike = [&](const at::Tensor& t) {
    return t.defined() && t.device().is_cpu() && t.scalar_type() == x.scalar_type();
  };
  const c10::SymInt width = n->states[0].dim() == 3 ? n->states[0].sym_size(2) : c10::SymInt(0);
  for (const at::Tensor& h : n->states) {
    if (!is_alike(h) || h.sym_sizes() != c10::SymIntArrayRef({layers * n->directions, x.sym_size(1), width}))
      return false;
  }
  for (std::size_t i = 0; i < n->weights.size(); ++i) {
    const at::Tensor& w = n->weights[i];
    const bool of_input = i % each == 0, is_bias = i % each > 1,
               first_layer = i < each * static_cast<std::size_t>(n->directions);
    if (!is_alike(w) || w.dim() != (is_bias ? 1 : 2) || w.sym_size(0) != gates * width) return false;
    const c10::SymInt from = !of_input ? width : first_layer ? x.sym_size(2) : width * n->directions;
    if (!is_bias && w.sym_size(1) != from) return false;
  }
  return is_alike(x);
}

bool Recurrent(Arguments args, Outputs& outputs) {
  Network n;
  if (!IsNetwork(args, 1, &n)) return false;
  const c10::ScalarType type = n.input->scalar_type();
  const at::Tensor& h = n.states[0];
  outputs.push_back(Contiguous({n.input->sym_size(0), n.input->sym_size(1), h.sym_size(2) * n.directions}, type));
  outputs.push_back(Contiguous(ToDims(h.sym_sizes()), type));
  outputs.push_back(Contiguous(n.states.size() > 1 ? ToDims(h.sym_sizes()) : Dims{0}, type));
  return true;
}

bool RecurrentBackward(Arguments args, Outputs& outputs) {
  Network n;
  if (!IsNetwork(args, 2, &n)) return false;
  const c10::ScalarType type = n.input->scalar_type();
  c10::SymInt all = 0;
  for (const at::Tensor& w : n.weights) all = all + w.sym_numel();
  outputs.push_back(Contiguous(ToDims(n.input->sym_sizes()), type));
  outputs.push_back(Contiguous(ToDims(n.states[0].sym_sizes()), type));
  outputs.push_back(Contiguous(n.states.size() > 1 ? ToDims(n.states[1].sym_sizes()) : Dims{0}, type));
  outputs.push_back(Contiguous({all}, type));
  return true;
}

using enum ir::OpName;

constexpr ShapeRow kRows[] = {
    {kRecurrent, Recurrent},
    {kRecurrentBackward, RecurrentBackward},
    {k_ScaledDotProductFlashAttentionForCpu, FlashForCpu},
    {k_ScaledDotProductFlashAttentionForCpuBackward, FlashForCpuBackward},
    {k_ScaledDotProductEfficientAttention, Efficient},
    {k_ScaledDotProductEfficientAttentionBackward, EfficientBackward},
    {k_TransformerEncoderLayerFwd, TransformerEncoderLayer},
};

}  // namespace

c10::ArrayRef<ShapeRow> AttentionShapes() { return kRows; }

}  // namespace framefuse::tracing
