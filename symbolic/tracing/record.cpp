// Recorder::Record: from an operator call on fakes to a node and fake results.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/neg.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "backends/graph/collectives.h"
#include "backends/graph/operators.h"
#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/check_setting.h"
#include "symbolic/tracing/cumulative_product_gradient.h"
#include "symbolic/tracing/gradient_checks.h"
#include "symbolic/tracing/infer_by_examples.h"
#include "symbolic/tracing/input_sizes.h"
#include "symbolic/tracing/kernel_probe.h"
#include "symbolic/tracing/node_histories.h"
#include "symbolic/tracing/own_python.h"
#include "symbolic/tracing/pin_watch.h"
#include "symbolic/tracing/plain_numbers.h"
#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/results_into_arguments.h"
#include "symbolic/tracing/run_on_zeros.h"
#include "symbolic/tracing/unbacked_sizes.h"

namespace framefuse::tracing {
namespace {

thread_local int own_python_depth = 0;

ir::Node NewNode(const Recorder& recorder, const OpTraits& traits) {
  ir::Node node;
  node.op = traits.op;
  node.phase = recorder.phase;
  node.origin = recorder.origin_callback != nullptr ? recorder.origin_callback(recorder.origin_context) : -1;
  if (recorder.phase == ir::Phase::kBackward) {
    node.sequence = CurrentBackwardSequence();
  } else if (!at::GradMode::is_enabled() && !FunctionForwardScope::IsOpen() &&
             traits.handle.schema().getNamespace() == "aten") {
    // Others may have derivatives by an autograd.Function of their own, whose forward runs so.
    node.history = ir::History::kCut;
  }
  return node;
}

c10::Device Indexed(c10::Device device) {
  if (device.is_cpu() || device.has_index()) return device;
  return c10::impl::VirtualGuardImpl(device.type()).getDevice();
}

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

}  // namespace

c10::DispatchKeySet KeysOffForMeta() {
  using c10::DispatchKey;
  using c10::DispatchKeySet;
  return DispatchKeySet(DispatchKey::Fake) | c10::autograd_dispatch_keyset |
         DispatchKeySet(DispatchKey::ADInplaceOrView) | c10::autocast_dispatch_keyset |
         DispatchKeySet(DispatchKey::Functionalize) | DispatchKeySet(DispatchKey::Python) |
         DispatchKeySet(DispatchKey::PythonTLSSnapshot);
}

namespace {

OutputMeta Describe(const at::Tensor& t) {
  OutputMeta out;
  out.defined = t.defined();
  if (!out.defined) return out;
  out.sizes = ToDims(t.sym_sizes());
  out.strides = ToDims(t.sym_strides());
  out.offset = t.sym_storage_offset();
  out.dtype = t.scalar_type();
  return out;
}

// Whose memory `result` shares among the arguments; -1: nobody's.
int AliasedArgument(const at::Tensor& result, c10::ArrayRef<c10::IValue> args) {
  const c10::StorageImpl* storage = result.storage().unsafeGetStorageImpl();
  for (std::size_t i = 0; i < args.size(); ++i) {
    const c10::IValue& v = args[i];
    if (v.isTensor() && v.toTensor().defined() && v.toTensor().storage().unsafeGetStorageImpl() == storage) {
      return static_cast<int>(i);
    }
  }
  return -1;
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

}  // namespace

OwnPythonScope::OwnPythonScope() { ++own_python_depth; }
OwnPythonScope::~OwnPythonScope() { --own_python_depth; }
bool Recorder::InOwnPython() { return own_python_depth > 0; }

void Recorder::Record(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  const OpTraits& traits = TraitsOf(handle);
  if (traits.is_composite) {
    return CallComposite(traits.decomposition, traits, graph_, stack);
  }
  if (around.set_on_the_way != SetOnTheWay::kNothing) CheckSetting(*this, traits, *stack);
  TieGradientCheck(*this, stack, traits);
  if (expects_comparison()) return CompareWithNans(traits, stack);
  if (ContinueProduct(traits, stack)) return;
  if (cumulative_product && ContinueCumulativeProduct(*this, traits, stack)) return;
  if (has_negated_) ResolveNegated(traits, stack);
  if (RecordIntoArguments(*this, traits, stack)) return;
  if (traits.special != nullptr && traits.special(*this, handle, stack)) return;
  RecordPlain(traits, stack);
}

void Recorder::CompareWithNans(const OpTraits& traits, torch::jit::Stack* stack) {
  const ir::ValueId expected = std::exchange(expected_comparison_, ir::kNoValue);
  const bool compares = ir::Is(traits.op, ir::OpName::kEqTensor);
  const at::Tensor other = compares ? torch::jit::pop(*stack).toTensor() : at::Tensor();
  const FakeImpl* fake = compares ? AsFake(other) : nullptr;
  if (fake == nullptr || fake->value() != expected) {
    Break(BreakKind::kDataDependent, traits, "the backward pass depends on the values of a tensor");
  }
  const at::Tensor self = torch::jit::pop(*stack).toTensor();
  stack->emplace_back(at::logical_or(at::eq(self, other), at::logical_and(at::isnan(self), at::isnan(other))));
}

// Torch lets copies and factories see negated views; kernels of a graph read memory as it is.
void Recorder::ResolveNegated(const OpTraits& traits, torch::jit::Stack* stack) {
  for (const ir::OpReturn& r : traits.op->returns()) {
    if (r.viewed_argument >= 0) return;
  }
  const auto& schema = traits.op->arguments();
  const std::size_t first = stack->size() - schema.size();
  for (std::size_t i = 0; i < schema.size(); ++i) {
    c10::IValue& v = (*stack)[first + i];
    if (!v.isTensor() || !v.toTensor().defined() || !v.toTensor().is_neg()) continue;
    if (schema[i].written) Break(BreakKind::kMutation, traits, "a negated view is written");
    v = at::neg(at::_neg_view(v.toTensor()));
  }
}

void Recorder::RecordPlain(const OpTraits& traits, torch::jit::Stack* stack) {
  const PinWatch watch(*sizes_, traits);
  const auto count = static_cast<std::size_t>(traits.num_arguments);
  c10::ArrayRef<c10::IValue> args(stack->data() + (stack->size() - count), count);
  Prepared prepared;
  prepared.node = NewNode(*this, traits);
  BuildArguments(traits, args, &prepared);
  NoteHistories(traits, args, &prepared.node);
  CheckWrites(traits, args);
  if (traits.refusal != nullptr && traits.refusal->refuses(args)) {
    Break(BreakKind::kNoShapeRule, traits, traits.refusal->reason);
  }
  if (const std::optional<std::string> refusal = RefusalOfEmpties(traits.op, args)) {
    Break(BreakKind::kNoShapeRule, traits, "eager's kernel refuses operands without elements: " + *refusal);
  }
  Outputs outputs;
  if (InferOwn(traits, args, &outputs)) {
    ++statistics_.own_shapes;
  } else {
    outputs.clear();
    InferByKernel(traits, args, &prepared, &outputs);
  }
  const KernelAnswer answer = AskKernel(traits.op, args);
  if (answer.refusal) {
    // Types alone decide of such a kernel, if it has elements to compute: the error is eager's own.
    const bool empty = AnyIsEmpty(args);
    const bool by_elements = traits.op->is_pointwise() || ir::Is(traits.op, ir::OpName::kRsubTensor);
    if (by_elements && !empty) std::rethrow_exception(answer.error);
    if (by_elements || !empty || !RunsOnZeros(traits.op, args)) {
      Break(BreakKind::kNoShapeRule, traits, "eager's kernel refuses such operands: " + *answer.refusal);
    }
  }
  CheckWarnings(traits, args, answer.warning, outputs);
  // What is waited for shares the result's memory without a view: torch must not take the memory for the result's
  // alone.
  if (ir::WaitsForOthers(prepared.node)) kept_.push_back(args[0].toTensor());
  Emit(traits, &prepared, outputs, stack);
}

void Recorder::RecordAs(const OpTraits& traits, torch::jit::Stack* stack, const torch::jit::Stack& results) {
  const auto count = static_cast<std::size_t>(traits.num_arguments);
  c10::ArrayRef<c10::IValue> args(stack->data() + (stack->size() - count), count);
  Prepared prepared;
  prepared.node = NewNode(*this, traits);
  BuildArguments(traits, args, &prepared);
  NoteHistories(traits, args, &prepared.node);
  Outputs outputs;
  DescribeResults(traits, args, results, &prepared, &outputs);
  Emit(traits, &prepared, outputs, stack);
}

void Recorder::NoteTensor(const at::Tensor& t, const OpTraits& traits, Prepared* prepared) {
  if (t.layout() != c10::Layout::Strided || t.is_quantized()) {
    Break(BreakKind::kUnsupportedTensor, traits, "only strided tensors are traced");
  }
  const bool scalar = t.dim() == 0 && t.device().is_cpu();
  if (!prepared->device || (prepared->device_from_scalar && !scalar)) {
    prepared->device = t.device();
    prepared->device_from_scalar = scalar;
  }
}

ir::Arg Recorder::TensorListArg(const c10::IValue& v, const OpTraits& traits, Prepared* prepared) {
  std::vector<ir::ValueId> values;
  for (const c10::IValue& e : v.toListRef()) {
    if (!e.isTensor() || !e.toTensor().defined()) {
      values.push_back(ir::kNoValue);
      continue;
    }
    NoteTensor(e.toTensor(), traits, prepared);
    values.push_back(ValueOf(e.toTensor(), traits));
  }
  return ir::Arg::OfValues(std::move(values));
}

ir::Arg Recorder::NumberArg(const c10::IValue& v, const OpTraits& traits) const {
  if (v.isNone()) return ir::Arg::None();
  if (v.isSymInt()) return ir::Arg::OfDim(ToDim(v.toSymInt()));
  if (v.isSymFloat()) return OperandOf(*sizes_, v.toSymFloat());
  if (IsSymbolicList(v)) {
    std::vector<ir::Dim> dims;
    for (const c10::SymInt& s : v.toSymIntVector()) dims.push_back(ToDim(s));
    return ir::Arg::OfDims(std::move(dims));
  }
  // Which one it is a guard compares. Branches are run from their texts, which can name none.
  if (v.isGenerator() && !open_branches.empty()) {
    ThrowBreak(BreakKind::kHiddenState, traits.op->name(), "a random number generator is passed",
               "use the default generator");
  }
  return ir::Arg::Constant(v);
}

void Recorder::CheckLayouts(const OpTraits& traits, c10::ArrayRef<c10::IValue> args) {
  const auto at = static_cast<std::size_t>(traits.layout_argument);
  if (traits.layout_argument < 0 || args[at].isNone() || args[at].toLayout() == c10::Layout::Strided) return;
  Break(BreakKind::kUnsupportedTensor, traits, "only strided tensors are traced");
}

void Recorder::BuildArguments(const OpTraits& traits, c10::ArrayRef<c10::IValue> args, Prepared* prepared) {
  const auto& schema = traits.op->arguments();
  prepared->node.args.reserve(args.size());
  for (std::size_t i = 0; i < args.size(); ++i) {
    const c10::IValue& v = args[i];
    ir::Arg arg;
    switch (schema[i].type) {
      case ir::ArgType::kTensor:
      case ir::ArgType::kOptionalTensor:
        if (v.isTensor() && v.toTensor().defined()) {
          NoteTensor(v.toTensor(), traits, prepared);
          arg = ir::Arg::OfValue(ValueOf(v.toTensor(), traits));
        }
        break;
      case ir::ArgType::kTensorList:
      case ir::ArgType::kOptionalTensorList:
        if (v.isList()) arg = TensorListArg(v, traits, prepared);
        break;
      case ir::ArgType::kOther:
        arg = NumberArg(v, traits);
        break;
    }
    prepared->node.args.push_back(std::move(arg));
  }
  CheckLayouts(traits, args);
  const int at = traits.device_argument;
  if (at >= 0 && args[static_cast<std::size_t>(at)].isDevice()) {
    prepared->device = args[static_cast<std::size_t>(at)].toDevice();
  }
  prepared->device = Indexed(prepared->device.value_or(c10::Device(c10::DeviceType::CPU)));
  if (!prepared->device->is_cpu() && !prepared->device->is_cuda()) {
    Break(BreakKind::kUnsupportedTensor, traits, "tensors on this device are not traced");
  }
}

bool Recorder::InferOwn(const OpTraits& traits, c10::ArrayRef<c10::IValue> args, Outputs* outputs) const {
  if (!traits.is_plain_inplace) return traits.shape != nullptr && traits.shape(args, *outputs);
  const at::Tensor& self = args[0].toTensor();
  if (IsExpanded(self)) return false;
  if (traits.shape == nullptr) return true;
  if (!traits.shape(args, *outputs)) return false;
  return SameSizes((*outputs)[0].sizes, self.sym_sizes()) && c10::canCast((*outputs)[0].dtype, self.scalar_type());
}

void Recorder::InferByKernel(const OpTraits& traits, c10::ArrayRef<c10::IValue> args, Prepared* prepared,
                             Outputs* outputs) {
  // It raises when the graph runs, as it does in eager.
  if (ir::Is(traits.op, ir::OpName::k_LinalgCheckErrors)) return;
  if (InferByRun(traits, args, prepared, outputs)) return;
  const bool asked = traits.meta_source != MetaSource::kNone && !IsCheckedByKernel(*traits.op, *sizes_, args);
  if (!asked && OnlyWrites(*traits.op)) return;
  if (traits.meta_source == MetaSource::kComposite) return InferComposite(traits, args, prepared, outputs);
  if (traits.meta_source != MetaSource::kNone) {
    if (InferByExamples(*this, traits, &prepared->node, outputs)) return;
    return InferMeta(traits, args, prepared, outputs);
  }
  Break(BreakKind::kNoShapeRule, traits, "the operator has no meta kernel",
        "register one with torch.library.register_fake");
}

torch::jit::Stack Recorder::MetaArguments(const OpTraits& traits, c10::ArrayRef<c10::IValue> args) const {
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

void Recorder::InferMeta(const OpTraits& traits, c10::ArrayRef<c10::IValue> args, Prepared* prepared,
                         Outputs* outputs) {
  const auto& schema = traits.op->arguments();
  torch::jit::Stack results = MetaArguments(traits, args);
  const torch::jit::Stack meta_args = results;
  {
    c10::impl::ExcludeDispatchKeyGuard off(KeysOffForMeta());
    OwnPythonScope own;
    const c10::DispatchKeySet keys(c10::DispatchKey::Meta);
    if (traits.meta_source == MetaSource::kPython) {
      ++statistics_.python_meta;
      ++statistics_.python_ops[traits.op->name()];
      try {
        traits.meta.callBoxed(traits.handle, keys, &results);
      } catch (const std::exception& e) {
        // Its message is not eager's, so the program must not see it.
        Break(BreakKind::kNoShapeRule, traits, std::string("the Python meta kernel failed: ") + e.what());
      }
    } else {
      ++statistics_.cpp_meta;
      traits.meta.callBoxed(traits.handle, keys, &results);
    }
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!schema[i].written || !args[i].isTensor()) continue;
    FakeImpl* fake = AsFake(args[i].toTensor());
    if (fake != nullptr && !SameGeometry(meta_args[i].toTensor(), args[i].toTensor())) {
      // The functional form of an operator gives its `out` form empty tensors to be resized.
      if (composite_first_value_ >= 0 && fake->value() >= composite_first_value_ && fake->numel() == 0) {
        fake->TakeGeometry(meta_args[i].toTensor());
        continue;
      }
      fake->ForgetMeta();
      Break(BreakKind::kMetadataMutation, traits, "an argument is resized");
    }
  }
  DescribeResults(traits, meta_args, results, prepared, outputs);
  for (const OutputMeta& m : *outputs) {
    const bool shares = m.alias_of >= 0 && args[static_cast<std::size_t>(m.alias_of)].isTensor();
    if (shares) (void)args[static_cast<std::size_t>(m.alias_of)].toTensor().storage_offset();  // pinned
  }
}

void Recorder::DescribeResults(const OpTraits& traits, c10::ArrayRef<c10::IValue> args,
                               const torch::jit::Stack& results, Prepared* prepared, Outputs* outputs) {
  const auto& returns = traits.op->returns();
  auto describe = [&](const at::Tensor& t, int viewed) {
    if (t.defined() && t.layout() != c10::Layout::Strided) {
      Break(BreakKind::kUnsupportedTensor, traits, "only strided tensors are traced");
    }
    OutputMeta m = Describe(t);
    if (m.defined) {
      m.alias_of = AliasedArgument(t, args);
      if (m.alias_of < 0) m.alias_of = viewed;
    }
    outputs->push_back(std::move(m));
  };
  for (std::size_t r = 0; r < returns.size(); ++r) {
    const c10::IValue& v = results[r];
    if (returns[r].written_argument >= 0) continue;
    if (v.isTensor()) {
      describe(v.toTensor(), returns[r].viewed_argument);
    } else if (v.isTensorList()) {
      prepared->node.list_sizes.resize(returns.size(), -1);
      prepared->node.list_sizes[r] = static_cast<std::int32_t>(v.toListRef().size());
      for (const c10::IValue& e : v.toListRef()) describe(e.toTensor(), returns[r].viewed_argument);
    } else if (v.isInt() || v.isBool()) {
      // Follows from sizes: the maximum sequence lengths of flash attention.
      prepared->numbers.resize(returns.size());
      prepared->numbers[r] = v;
    } else {
      Break(BreakKind::kDataDependent, traits, "the operator returns a number");
    }
  }
}

at::Tensor Recorder::EmitOutput(const OutputMeta& meta, c10::ArrayRef<c10::IValue> args, const Prepared& prepared) {
  if (!meta.defined) return at::Tensor();
  if (meta.alias_of < 0) return NewFake(meta, *prepared.device, nullptr, NewStorage());
  const c10::IValue& v = args[static_cast<std::size_t>(meta.alias_of)];
  at::Tensor base = v.isTensor() ? v.toTensor() : v.toListRef()[0].toTensor();
  if (AsFake(base) == nullptr) base = ConstantFake(base);
  const ir::StorageId storage_id = graph_.value(AsFake(base)->value()).storage;
  const c10::Storage storage = base.storage();
  const c10::InferenceMode inference(base.is_inference());  // a view of another tensor is none, also in that mode
  at::Tensor view = NewFake(meta, *prepared.device, &storage, storage_id);
  if (base.is_conj() && view.is_complex()) view._set_conj(true);
  if (base.is_neg()) view._set_neg(true);
  return view;
}

void Recorder::Emit(const OpTraits& traits, Prepared* prepared, const Outputs& outputs, torch::jit::Stack* stack) {
  const auto count = static_cast<std::size_t>(traits.num_arguments);
  c10::ArrayRef<c10::IValue> args(stack->data() + (stack->size() - count), count);
  const auto& returns = traits.op->returns();
  ir::Node& node = prepared->node;
  c10::SmallVector<c10::IValue, 3> results;
  std::size_t next = 0;
  auto one = [&]() {
    at::Tensor t = EmitOutput(outputs[next++], args, *prepared);
    node.outputs.push_back(t.defined() ? AsFake(t)->value() : ir::kNoValue);
    return t;
  };
  for (std::size_t r = 0; r < returns.size(); ++r) {
    if (returns[r].written_argument >= 0) {
      results.push_back(args[static_cast<std::size_t>(returns[r].written_argument)]);
      if (returns[r].type == ir::ArgType::kTensorList) {
        const std::size_t size = results.back().toListRef().size();
        node.list_sizes.resize(returns.size(), -1);
        node.list_sizes[r] = static_cast<std::int32_t>(size);
        node.outputs.insert(node.outputs.end(), size, ir::kNoValue);
      } else {
        node.outputs.push_back(ir::kNoValue);
      }
    } else if (returns[r].type == ir::ArgType::kTensorList) {
      // Own shape functions describe operators whose only return is the list.
      if (node.list_sizes.empty()) node.list_sizes.assign(1, static_cast<std::int32_t>(outputs.size()));
      c10::List<at::Tensor> list;
      for (std::int32_t i = 0; i < node.list_sizes[r]; ++i) list.push_back(one());
      results.emplace_back(std::move(list));
    } else if (returns[r].type == ir::ArgType::kOther) {
      results.push_back(prepared->numbers[r]);
      node.outputs.push_back(ir::kNoValue);
    } else {
      results.emplace_back(one());
    }
  }
  if (HaveHistories(node, args)) GiveHistories(results);
  graph_.nodes.push_back(std::move(node));
  torch::jit::drop(*stack, count);
  for (c10::IValue& v : results) stack->push_back(std::move(v));
}

}  // namespace framefuse::tracing
