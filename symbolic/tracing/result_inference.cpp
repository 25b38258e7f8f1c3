#include "symbolic/tracing/result_inference.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <utility>

#include "backends/graph/format_of_padding.h"
#include "backends/graph/operators.h"
#include "symbolic/tracing/infer_by_examples.h"
#include "symbolic/tracing/infer_by_run.h"
#include "symbolic/tracing/own_python.h"
#include "symbolic/tracing/plain_numbers.h"
#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/unbacked_sizes.h"

namespace framefuse::tracing {
namespace {

at::Tensor MetaOf(const at::Tensor& t) {
  if (!t.defined()) return t;
  if (FakeImpl* fake = AsFake(t)) return fake->Meta();
  // Python meta kernels expect wrapped numbers on the CPU.
  return t.unsafeGetTensorImpl()->is_wrapped_number() ? t : MetaLike(t);
}

c10::IValue MetaArgument(const c10::IValue& v, ir::ArgType type) {
  if (v.isTensor()) return MetaOf(v.toTensor());
  if (type == ir::ArgType::kTensorList && v.isList()) {
    c10::List<at::Tensor> list;
    for (const c10::IValue& e : v.toListRef()) list.push_back(MetaOf(e.toTensor()));
    return list;
  }
  if (type == ir::ArgType::kOptionalTensorList && v.isList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& e : v.toListRef()) {
      list.push_back(e.isTensor() ? std::optional<at::Tensor>(MetaOf(e.toTensor())) : std::nullopt);
    }
    return list;
  }
  return Plain(v).value_or(v);
}

bool SameGeometry(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.storage_offset() == b.storage_offset();
}

bool SameSizes(const Dims& sizes, c10::SymIntArrayRef of) {
  if (sizes.size() != of.size()) return false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != of[i]) return false;
  }
  return true;
}

// By the operator's shape function; false: it has none, or leaves these arguments to torch's kernels.
bool InferOwn(const OpTraits& traits, c10::ArrayRef<c10::IValue> args, Outputs* outputs) {
  if (!traits.is_plain_inplace) return traits.shape != nullptr && traits.shape(args, *outputs);
  const at::Tensor& self = args[0].toTensor();
  if (IsExpanded(self)) return false;
  if (traits.shape == nullptr) return true;
  if (!traits.shape(args, *outputs)) return false;
  return SameSizes((*outputs)[0].sizes, self.sym_sizes()) && c10::canCast((*outputs)[0].dtype, self.scalar_type());
}

// A padding's result is as the kernels make it.
void KeepFormat(const ir::Op& op, c10::ArrayRef<c10::IValue> args, OutputMeta* output) {
  const c10::MemoryFormat format =
      args[static_cast<std::size_t>(op.FindArgument("self"))].toTensor().suggest_memory_format();
  if (format == c10::MemoryFormat::Contiguous || !HasFormat(output->sizes.size(), format)) return;
  *output = WithFormat(std::move(output->sizes), output->dtype, format);
}

torch::jit::Stack MetaArguments(const OpTraits& traits, c10::ArrayRef<c10::IValue> args) {
  const auto& schema = traits.op->arguments();
  torch::jit::Stack meta;
  meta.reserve(args.size() + schema.size());
  bool has_tensor = false;
  for (const ir::OpArgument& a : schema) has_tensor = has_tensor || a.type != ir::ArgType::kOther;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (static_cast<int>(i) == traits.device_argument) {
      meta.emplace_back(args[i].isNone() && has_tensor ? args[i] : c10::IValue(c10::Device(c10::DeviceType::Meta)));
    } else if (schema[i].name == "pin_memory") {
      meta.emplace_back();
    } else {
      meta.push_back(MetaArgument(args[i], schema[i].type));
    }
  }
  return meta;
}

}  // namespace

c10::DispatchKeySet KeysOffForMeta() {
  using c10::DispatchKey;
  using c10::DispatchKeySet;
  return DispatchKeySet(DispatchKey::Fake) | c10::autograd_dispatch_keyset |
         DispatchKeySet(DispatchKey::ADInplaceOrView) | c10::autocast_dispatch_keyset |
         DispatchKeySet(DispatchKey::Functionalize) | DispatchKeySet(DispatchKey::Python) |
         DispatchKeySet(DispatchKey::PythonTLSSnapshot);
}

Outputs ResultInference::Infer(Recorder& recorder, const OpTraits& traits, NodeBuilder* builder) {
  Outputs outputs;
  if (InferOwn(traits, builder->args(), &outputs)) {
    ++statistics_.own_shapes;
    return outputs;
  }
  outputs.clear();
  ByKernel(recorder, traits, builder, &outputs);
  if (ir::PadsInFormat(traits.op) && builder->device().is_cpu() && !outputs.empty()) {
    KeepFormat(*traits.op, builder->args(), &outputs[0]);
  }
  return outputs;
}

void ResultInference::ByKernel(Recorder& recorder, const OpTraits& traits, NodeBuilder* builder, Outputs* outputs) {
  // It raises when the graph runs, as it does in eager.
  if (ir::Is(traits.op, ir::OpName::k_LinalgCheckErrors)) return;
  const c10::ArrayRef<c10::IValue> args = builder->args();
  if (const std::optional<MetadataRun> run = RunForMetadata(recorder, traits, args, builder->device())) {
    ++statistics_.runs_for_metadata;
    return builder->DescribeResults(run->arguments, run->results, outputs);
  }
  const bool asked = traits.meta_source != MetaSource::kNone && !IsCheckedByKernel(*traits.op, recorder.sizes(), args);
  if (!asked && OnlyWrites(*traits.op)) return;
  if (traits.meta_source == MetaSource::kComposite) {
    ++statistics_.composite_meta;
    return builder->DescribeResults(args, composites_.ResultsOf(recorder, traits, args), outputs);
  }
  if (traits.meta_source != MetaSource::kNone) {
    if (InferByExamples(recorder, traits, &builder->node(), outputs)) return;
    return ByMetaKernel(recorder, traits, builder, outputs);
  }
  recorder.Break(BreakKind::kNoShapeRule, traits, "the operator has no meta kernel",
                 "register one with torch.library.register_fake");
}

void ResultInference::CallMetaKernel(Recorder& recorder, const OpTraits& traits, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard off(KeysOffForMeta());
  const OwnPythonScope own;
  const c10::DispatchKeySet keys(c10::DispatchKey::Meta);
  if (traits.meta_source != MetaSource::kPython) {
    ++statistics_.cpp_meta;
    return traits.meta.callBoxed(traits.handle, keys, stack);
  }
  ++statistics_.python_meta;
  ++statistics_.python_ops[traits.op->name()];
  try {
    traits.meta.callBoxed(traits.handle, keys, stack);
  } catch (const std::exception& e) {
    // Its message is not eager's, so the program must not see it.
    recorder.Break(BreakKind::kNoShapeRule, traits, std::string("the Python meta kernel failed: ") + e.what());
  }
}

void ResultInference::CheckSizesKept(Recorder& recorder, const OpTraits& traits, c10::ArrayRef<c10::IValue> args,
                                     const torch::jit::Stack& meta_args) const {
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!traits.op->arguments()[i].written || !args[i].isTensor()) continue;
    FakeImpl* fake = AsFake(args[i].toTensor());
    if (fake == nullptr || SameGeometry(meta_args[i].toTensor(), args[i].toTensor())) continue;
    // The functional form of an operator gives its `out` form empty tensors to be resized.
    if (composites_.Made(fake->value()) && fake->numel() == 0) {
      fake->TakeGeometry(meta_args[i].toTensor());
      continue;
    }
    fake->ForgetMeta();
    recorder.Break(BreakKind::kMetadataMutation, traits, "an argument is resized");
  }
}

void ResultInference::ByMetaKernel(Recorder& recorder, const OpTraits& traits, NodeBuilder* builder, Outputs* outputs) {
  const c10::ArrayRef<c10::IValue> args = builder->args();
  torch::jit::Stack results = MetaArguments(traits, args);
  const torch::jit::Stack meta_args = results;
  CallMetaKernel(recorder, traits, &results);
  CheckSizesKept(recorder, traits, args, meta_args);
  builder->DescribeResults(meta_args, results, outputs);
  for (const OutputMeta& m : *outputs) {
    const bool shares = m.alias_of >= 0 && args[static_cast<std::size_t>(m.alias_of)].isTensor();
    if (shares) (void)args[static_cast<std::size_t>(m.alias_of)].toTensor().storage_offset();  // pinned
  }
}

}  // namespace framefuse::tracing
