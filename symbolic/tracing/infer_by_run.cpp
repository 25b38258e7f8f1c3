// Metadata of operators of ATen's that no kernel describes, or that torch's describes wrongly: the CPU kernel runs
// once, on zeros, when the operator is recorded. Only where neither values nor a generator decide what comes out; never
// for operators of others, whose calls the program could count, and never on a device, whose memory tracing leaves
// alone.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string>
#include <unordered_set>

#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 24;  // of one argument

// Strides of the result follow the library that computes it, and for a triangular solve whether a conjugate came in;
// which outputs stay empty follows the path it takes; the type of statistics follows that of parameters that are not of
// the input's (shapes/ has what is of one type); the loss of one sample without a dimension has none.
bool IsDescribedWrongly(const std::string& name) {
  static const auto* names = new std::unordered_set<std::string>{"aten::_fft_r2c",
                                                                 "aten::_fft_c2r",
                                                                 "aten::_fft_c2c",
                                                                 "aten::_embedding_bag",
                                                                 "aten::addr",
                                                                 "aten::linalg_solve_triangular",
                                                                 "aten::multilabel_margin_loss_forward",
                                                                 "aten::native_layer_norm",
                                                                 "aten::native_layer_norm_backward",
                                                                 "aten::native_group_norm",
                                                                 "aten::native_group_norm_backward",
                                                                 "aten::native_batch_norm",
                                                                 "aten::_batch_norm_with_update",
                                                                 "aten::native_batch_norm_backward"};
  return names->count(name) != 0;
}

// The CPU converts operands to their common type before it chooses the result's strides, the meta device does not.
bool IsConverted(const ir::Op& op, c10::ArrayRef<c10::IValue> args) {
  static const auto* losses =
      new std::unordered_set<std::string>{"aten.mse_loss", "aten.smooth_l1_loss", "aten.huber_loss"};
  if (!op.is_pointwise() && losses->count(op.name()) == 0) return false;
  std::optional<c10::ScalarType> first;
  bool differ = false, dense = true;
  for (const c10::IValue& v : args) {
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    const at::Tensor& t = v.toTensor();
    differ = differ || (first.has_value() && *first != t.scalar_type()) || !c10::isFloatingType(t.scalar_type());
    first = t.scalar_type();
    dense = dense && IsNonOverlappingAndDense(t);
  }
  return differ && !dense;
}

// The run's zeros are written, and thrown away; a result that is one of them would be taken for a new tensor.
bool ReturnsWhatItWrites(const ir::Op& op) {
  if (!op.mutates()) return false;
  for (const ir::OpReturn& r : op.returns()) {
    if (r.written_argument >= 0) return true;
  }
  return op.returns().empty();
}

bool CanRun(const at::Tensor& t) {
  return !t.defined() || (t.device().is_cpu() && t.layout() == c10::Layout::Strided && t.numel() <= kMostElements);
}

at::Tensor ZerosLike(const at::Tensor& t) {
  if (!t.defined() || AsFake(t) == nullptr) return t;
  const at::Tensor zeros = at::empty_strided(t.sizes(), t.strides(), t.options().device(c10::DeviceType::CPU)).zero_();
  const at::Tensor maybe_conjugate = t.is_conj() ? zeros._conj() : zeros;
  return t.is_neg() ? maybe_conjugate._neg_view() : maybe_conjugate;
}

}  // namespace

bool Recorder::InferByRun(const OpTraits& traits, c10::ArrayRef<c10::IValue> args, Prepared* prepared,
                          Outputs* outputs) {
  const c10::OperatorHandle& handle = traits.handle;
  const std::string& name = handle.operator_name().name;
  if (traits.meta_source != MetaSource::kNone && !IsDescribedWrongly(name) && !IsConverted(*traits.op, args)) {
    return false;
  }
  if (!name.starts_with("aten::") || ReturnsWhatItWrites(*traits.op) ||
      handle.hasTag(at::Tag::nondeterministic_seeded) || handle.hasTag(at::Tag::data_dependent_output) ||
      handle.hasTag(at::Tag::dynamic_output_shape)) {
    return false;
  }
  if (traits.returns_number || !prepared->device->is_cpu()) return false;
  bool possible = true;
  torch::jit::Stack stack;
  c10::impl::ExcludeDispatchKeyGuard off(KeysOffForMeta());
  for (const c10::IValue& v : args) {
    if (v.isTensor()) possible = possible && CanRun(v.toTensor());
    if (v.isTensorList()) {
      for (const c10::IValue& e : v.toListRef()) possible = possible && CanRun(e.toTensor());
    }
    possible = possible && !v.isGenerator() && !v.isOptionalTensorList();
  }
  if (!possible) return false;
  for (const c10::IValue& v : args) {
    if (v.isTensor()) {
      stack.emplace_back(ZerosLike(v.toTensor()));
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const c10::IValue& e : v.toListRef()) list.push_back(ZerosLike(e.toTensor()));
      stack.emplace_back(std::move(list));
    } else {
      stack.push_back(v);
    }
  }
  const torch::jit::Stack run_args = stack;
  try {
    handle.callBoxed(&stack);
  } catch (const c10::Error& e) {
    // It may be about the zeros: their values are not the program's.
    Break(BreakKind::kNoShapeRule, traits, "a run on zeros failed: " + std::string(e.what_without_backtrace()));
  }
  ++statistics_.runs_for_metadata;
  DescribeResults(traits, run_args, stack, prepared, outputs);
  return true;
}

}  // namespace framefuse::tracing
