#include "symbolic/tracing/node_builder.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/input_sizes.h"
#include "symbolic/tracing/node_histories.h"
#include "symbolic/tracing/plain_numbers.h"
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {
namespace {

ir::Node NewNode(const Recorder& recorder, const OpTraits& traits) {
  ir::Node node;
  node.op = traits.op;
  node.phase = recorder.phase();
  node.origin = recorder.OriginOfOp();
  if (recorder.phase() == ir::Phase::kBackward) {
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

}  // namespace

NodeBuilder::NodeBuilder(Recorder& recorder, const OpTraits& traits, torch::jit::Stack* stack)
    : recorder_(recorder),
      traits_(traits),
      stack_(stack),
      args_(stack->data() + (stack->size() - static_cast<std::size_t>(traits.num_arguments)),
            static_cast<std::size_t>(traits.num_arguments)),
      node_(NewNode(recorder, traits)) {
  BuildArguments();
  NoteHistories(traits, args_, &node_);
}

void NodeBuilder::NoteTensor(const at::Tensor& t) {
  if (t.layout() != c10::Layout::Strided || t.is_quantized()) {
    recorder_.Break(BreakKind::kUnsupportedTensor, traits_, "only strided tensors are traced");
  }
  const bool scalar = t.dim() == 0 && t.device().is_cpu();
  if (!device_ || (device_from_scalar_ && !scalar)) {
    device_ = t.device();
    device_from_scalar_ = scalar;
  }
}

ir::Arg NodeBuilder::TensorListArg(const c10::IValue& v) {
  std::vector<ir::ValueId> values;
  for (const c10::IValue& e : v.toListRef()) {
    if (!e.isTensor() || !e.toTensor().defined()) {
      values.push_back(ir::kNoValue);
      continue;
    }
    NoteTensor(e.toTensor());
    values.push_back(recorder_.ValueOf(e.toTensor(), traits_));
  }
  return ir::Arg::OfValues(std::move(values));
}

ir::Arg NodeBuilder::NumberArg(const c10::IValue& v) const {
  if (v.isNone()) return ir::Arg::None();
  if (v.isSymInt()) return ir::Arg::OfDim(recorder_.ToDim(v.toSymInt()));
  if (v.isSymFloat()) return OperandOf(recorder_.sizes(), v.toSymFloat());
  if (IsSymbolicList(v)) {
    std::vector<ir::Dim> dims;
    for (const c10::SymInt& s : v.toSymIntVector()) dims.push_back(recorder_.ToDim(s));
    return ir::Arg::OfDims(std::move(dims));
  }
  // Which one it is a guard compares. Branches are run from their texts, which can name none.
  if (v.isGenerator() && recorder_.branches().any_open()) {
    ThrowBreak(BreakKind::kHiddenState, traits_.op->name(), "a random number generator is passed",
               "use the default generator");
  }
  return ir::Arg::Constant(v);
}

void NodeBuilder::CheckLayouts() const {
  const auto at = static_cast<std::size_t>(traits_.layout_argument);
  if (traits_.layout_argument < 0 || args_[at].isNone() || args_[at].toLayout() == c10::Layout::Strided) return;
  recorder_.Break(BreakKind::kUnsupportedTensor, traits_, "only strided tensors are traced");
}

void NodeBuilder::BuildArguments() {
  const auto& schema = traits_.op->arguments();
  node_.args.reserve(args_.size());
  for (std::size_t i = 0; i < args_.size(); ++i) {
    const c10::IValue& v = args_[i];
    ir::Arg arg;
    switch (schema[i].type) {
      case ir::ArgType::kTensor:
      case ir::ArgType::kOptionalTensor:
        if (v.isTensor() && v.toTensor().defined()) {
          NoteTensor(v.toTensor());
          arg = ir::Arg::OfValue(recorder_.ValueOf(v.toTensor(), traits_));
        }
        break;
      case ir::ArgType::kTensorList:
      case ir::ArgType::kOptionalTensorList:
        if (v.isList()) arg = TensorListArg(v);
        break;
      case ir::ArgType::kOther:
        arg = NumberArg(v);
        break;
    }
    node_.args.push_back(std::move(arg));
  }
  CheckLayouts();
  const int at = traits_.device_argument;
  if (at >= 0 && args_[static_cast<std::size_t>(at)].isDevice()) {
    device_ = args_[static_cast<std::size_t>(at)].toDevice();
  }
  device_ = Indexed(device_.value_or(c10::Device(c10::DeviceType::CPU)));
  if (!device_->is_cpu() && !device_->is_cuda()) {
    recorder_.Break(BreakKind::kUnsupportedTensor, traits_, "tensors on this device are not traced");
  }
}

void NodeBuilder::DescribeResults(c10::ArrayRef<c10::IValue> args, const torch::jit::Stack& results, Outputs* outputs) {
  const auto& returns = traits_.op->returns();
  auto describe = [&](const at::Tensor& t, int viewed) {
    if (t.defined() && t.layout() != c10::Layout::Strided) {
      recorder_.Break(BreakKind::kUnsupportedTensor, traits_, "only strided tensors are traced");
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
      node_.list_sizes.resize(returns.size(), -1);
      node_.list_sizes[r] = static_cast<std::int32_t>(v.toListRef().size());
      for (const c10::IValue& e : v.toListRef()) describe(e.toTensor(), returns[r].viewed_argument);
    } else if (v.isInt() || v.isBool()) {
      // Follows from sizes: the maximum sequence lengths of flash attention.
      numbers_.resize(returns.size());
      numbers_[r] = v;
    } else {
      recorder_.Break(BreakKind::kDataDependent, traits_, "the operator returns a number");
    }
  }
}

at::Tensor NodeBuilder::EmitOutput(const OutputMeta& meta) {
  if (!meta.defined) return at::Tensor();
  if (meta.alias_of < 0) return recorder_.NewFake(meta, *device_, nullptr, recorder_.NewStorage());
  const c10::IValue& v = args_[static_cast<std::size_t>(meta.alias_of)];
  at::Tensor base = v.isTensor() ? v.toTensor() : v.toListRef()[0].toTensor();
  if (AsFake(base) == nullptr) base = recorder_.constants().FakeOf(recorder_, base);
  const ir::StorageId storage_id = recorder_.graph().value(AsFake(base)->value()).storage;
  const c10::Storage storage = base.storage();
  const c10::InferenceMode inference(base.is_inference());  // a view of another tensor is none, also in that mode
  at::Tensor view = recorder_.NewFake(meta, *device_, &storage, storage_id);
  if (base.is_conj() && view.is_complex()) view._set_conj(true);
  if (base.is_neg()) view._set_neg(true);
  return view;
}

void NodeBuilder::Emit(const Outputs& outputs) {
  const auto& returns = traits_.op->returns();
  c10::SmallVector<c10::IValue, 3> results;
  std::size_t next = 0;
  auto one = [&]() {
    at::Tensor t = EmitOutput(outputs[next++]);
    node_.outputs.push_back(t.defined() ? AsFake(t)->value() : ir::kNoValue);
    return t;
  };
  for (std::size_t r = 0; r < returns.size(); ++r) {
    if (returns[r].written_argument >= 0) {
      results.push_back(args_[static_cast<std::size_t>(returns[r].written_argument)]);
      if (returns[r].type == ir::ArgType::kTensorList) {
        const std::size_t size = results.back().toListRef().size();
        node_.list_sizes.resize(returns.size(), -1);
        node_.list_sizes[r] = static_cast<std::int32_t>(size);
        node_.outputs.insert(node_.outputs.end(), size, ir::kNoValue);
      } else {
        node_.outputs.push_back(ir::kNoValue);
      }
    } else if (returns[r].type == ir::ArgType::kTensorList) {
      // Own shape functions describe operators whose only return is the list.
      if (node_.list_sizes.empty()) node_.list_sizes.assign(1, static_cast<std::int32_t>(outputs.size()));
      c10::List<at::Tensor> list;
      for (std::int32_t i = 0; i < node_.list_sizes[r]; ++i) list.push_back(one());
      results.emplace_back(std::move(list));
    } else if (returns[r].type == ir::ArgType::kOther) {
      results.push_back(numbers_[r]);
      node_.outputs.push_back(ir::kNoValue);
    } else {
      results.emplace_back(one());
    }
  }
  if (HaveHistories(node_, args_)) GiveHistories(results);
  recorder_.graph().nodes.push_back(std::move(node_));
  torch::jit::drop(*stack_, args_.size());
  for (c10::IValue& v : results) stack_->push_back(std::move(v));
}

}  // namespace framefuse::tracing
