#include "backends/runtime/aten_sequence.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "backends/graph/collectives.h"
#include "backends/graph/operators.h"
#include "backends/graph/unsaid_warnings.h"
#include "backends/graph/uses.h"
#include "backends/passes/scatter_offsets.h"
#include "backends/runtime/cond_operator.h"
#include "backends/runtime/in_place_form.h"
#include "backends/runtime/layout_check.h"
#include "backends/runtime/node_text.h"
#include "backends/runtime/prepared_arg.h"
#include "backends/runtime/view_memo.h"
#include "common/check.h"
#include "common/config.h"
#include "common/index.h"
#include "common/status.h"

namespace framefuse {
namespace {
using ir::Arg;
using ir::ValueId;

// Signatures that are called without boxing: nearly all pointwise operators.
using Unary = at::Tensor(const at::Tensor&);
using Binary = at::Tensor(const at::Tensor&, const at::Tensor&);
using BinaryAlpha = at::Tensor(const at::Tensor&, const at::Tensor&, const c10::Scalar&);
using WithScalar = at::Tensor(const at::Tensor&, const c10::Scalar&);
using WithScalars = at::Tensor(const at::Tensor&, const c10::Scalar&, const c10::Scalar&);

enum class Call : std::uint8_t { kBoxed, kUnary, kBinary, kBinaryAlpha, kWithScalar, kWithScalars };

// T: a tensor, S: a number, ?: anything else.
std::string SignatureOf(const c10::FunctionSchema& schema) {
  std::string text;
  for (const c10::Argument& a : schema.arguments()) {
    switch (a.type()->kind()) {
      case c10::TypeKind::TensorType:
        text += a.alias_info() != nullptr && a.alias_info()->isWrite() ? '?' : 'T';
        break;
      case c10::TypeKind::NumberType:
        text += 'S';
        break;
      default:
        text += '?';
    }
  }
  bool one_tensor = schema.returns().size() == 1 && schema.returns()[0].type()->kind() == c10::TypeKind::TensorType;
  return one_tensor ? text : "?";
}

Call CallOf(const c10::FunctionSchema& schema) {
  std::string s = SignatureOf(schema);
  if (s == "T") return Call::kUnary;
  if (s == "TT") return Call::kBinary;
  if (s == "TTS") return Call::kBinaryAlpha;
  if (s == "TS") return Call::kWithScalar;
  if (s == "TSS") return Call::kWithScalars;
  return Call::kBoxed;
}

}  // namespace

struct AtenSequence::PlanStep {
  const c10::OperatorHandle* handle = nullptr;
  Call call = Call::kBoxed;
  bool defines_one = false;  // one tensor result, the common case
  std::vector<PreparedArg> args;
  std::vector<std::int32_t> outputs;  // slot of each flattened result
  std::vector<std::int32_t> list_sizes;
  std::vector<std::int32_t> written;  // slots whose tensors the op writes
  std::vector<std::int32_t> clear;    // slots that end here (typed calls use tensors in place)
  std::optional<c10::Scalar> scalars[2];
  std::unique_ptr<ViewMemo> view;  // of operators that it serves
  std::int32_t node = 0;
  InPlaceForm in_place;
  ValueId whole = ir::kNoValue;     // its first argument, where the operator copies all of its storage
  ValueId laid_out = ir::kNoValue;  // its first argument, where the operator goes by places in memory
};

struct AtenSequence::Frame {
  absl::InlinedVector<c10::IValue, 16> slots;
  std::vector<std::int64_t> exprs;
  torch::jit::Stack stack;
  bool views_from_memo = false;
  bool wrote = false;  // an operator's in-place form has written an input
};

AtenSequence::AtenSequence() = default;
AtenSequence::~AtenSequence() = default;

absl::StatusOr<std::unique_ptr<Executable>> AtenSequence::Create(ir::Graph graph, const BackendOptions&) {
  FF_ASSIGN_OR_RETURN(std::unique_ptr<AtenSequence> made, CreateRewritten(std::move(graph)));
  made->says_strides_ = true;
  return made;
}

absl::StatusOr<std::unique_ptr<AtenSequence>> AtenSequence::CreateRewritten(ir::Graph graph) {
  auto sequence = std::unique_ptr<AtenSequence>(new AtenSequence);
  FF_RETURN_IF_ERROR(PrepareConds(graph));
  sequence->graph_ = std::move(graph);
  sequence->Build();
  sequence->says_strides_ = false;
  return sequence;
}

void AtenSequence::WriteOver(std::size_t output) {
  const ValueId result = graph_.outputs[output].value;
  for (PlanStep& s : steps_) {
    const ir::Node& n = graph_.nodes[At(s.node)];
    if (std::find(n.outputs.begin(), n.outputs.end(), result) == n.outputs.end()) continue;
    s.in_place = InPlaceFormOf(graph_, n);
    s.call = Call::kBoxed;
  }
}

void AtenSequence::Build() {
  for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
    if (graph_.value(graph_.inputs[i].value).kind != ir::ValueKind::kTensor) {
      number_inputs_.push_back(static_cast<std::int32_t>(i));
    }
  }
  warns_of_sizes_ = ir::MayWarnOfSizes(graph_);
  std::vector<std::int32_t> last = ir::LastUses(graph_);
  steps_.reserve(graph_.nodes.size());
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    PlanStep s = StepOf(static_cast<std::int32_t>(i));
    const bool acts = graph_.nodes[i].op->mutates() || ir::SpeaksToOthers(graph_.nodes[i]);
    if (!WritesInputs() && acts) first_write_ = s.node;
    EndValues(&s, &last);
    steps_.push_back(std::move(s));
  }
  FindLastOutputs();
}

// Memory of an input whose writes its version does not count.
bool AtenSequence::IsUncounted(ValueId v) const {
  const ir::StorageId own = graph_.value(v).storage;
  return std::any_of(graph_.inputs.begin(), graph_.inputs.end(), [&](const ir::Input& in) {
    return in.mutated_uncounted && (in.value == v || (own >= 0 && graph_.value(in.value).storage == own));
  });
}

AtenSequence::PlanStep AtenSequence::StepOf(std::int32_t index) const {
  const ir::Node& n = graph_.nodes[At(index)];
  PlanStep s;
  s.node = index;
  s.handle = &n.op->handle();
  s.call = CallOf(n.op->schema());
  for (std::size_t a = 0; a < n.args.size(); ++a) {
    s.args.push_back(Prepare(n.args[a], n.op->arguments()[a]));
    bool scalar = s.call != Call::kBoxed && n.op->arguments()[a].type == ir::ArgType::kOther;
    if (!scalar) continue;
    if (s.args.back().kind == PreparedArg::Kind::kConstant && s.args.back().constant.isScalar()) {
      s.scalars[s.scalars[0].has_value() ? 1 : 0] = s.args.back().constant.toScalar();
    } else {
      s.call = Call::kBoxed;  // a symbolic number
    }
  }
  s.outputs.assign(n.outputs.begin(), n.outputs.end());
  s.list_sizes = n.list_sizes;
  s.defines_one = n.list_sizes.empty() && n.outputs.size() == 1;
  static constexpr ir::OpNames kByPlaces{ir::OpName::kAsStrided, ir::OpName::k_ReshapeAlias, ir::OpName::kView};
  const bool by_offsets = kByPlaces.contains(n.op) || n.op == ScatterOffsets();
  if (graph_.functional && by_offsets && n.args[0].kind == Arg::Kind::kValue) s.laid_out = n.args[0].value;
  // They copy all of the storage that their first argument is a part of.
  static constexpr ir::OpNames kCopyStorage{ir::OpName::kSliceScatter, ir::OpName::kSelectScatter,
                                            ir::OpName::kDiagonalScatter};
  if (graph_.functional && kCopyStorage.contains(n.op)) s.whole = n.args[0].value;
  if (graph_.functional && ViewMemo::Serves(n)) s.view = std::make_unique<ViewMemo>();
  for (std::size_t a = 0; a < n.args.size(); ++a) {
    if (!n.op->arguments()[a].written) continue;
    const auto count = [&](ValueId v) { IsUncounted(v) ? void() : s.written.push_back(v); };
    ir::ForEachValue(n.args[a], count);
  }
  return s;
}

// Each value that dies in a step is moved by its last mention, or cleared after a typed call.
void AtenSequence::EndValues(PlanStep* step, std::vector<std::int32_t>* last) const {
  const auto ends = [&](std::int32_t slot) { return slot != kNoSlot && (*last)[At(slot)] == step->node; };
  std::vector<ArgSlot*> mentions;
  for (PreparedArg& p : step->args) {
    if (p.kind == PreparedArg::Kind::kSlot) mentions.push_back(&p.use);
    for (ArgSlot& u : p.uses) mentions.push_back(&u);
  }
  for (std::size_t m = mentions.size(); m-- > 0;) {
    std::int32_t slot = mentions[m]->slot;
    if (!ends(slot)) continue;
    (*last)[At(slot)] = -1;
    // A written tensor is still needed after the call, for its version counter.
    if (step->call == Call::kBoxed && step->written.empty()) {
      mentions[m]->last = true;
    } else {
      step->clear.push_back(slot);
    }
  }
  for (std::int32_t& slot : step->outputs) {
    if (ends(slot)) slot = kNoSlot;  // never used
  }
}

void AtenSequence::FindLastOutputs() {
  output_last_use_.resize(graph_.outputs.size());
  std::vector<bool> seen(graph_.values.size(), false);
  for (const ir::ConstantTensor& c : graph_.constants) seen[At(c.value)] = true;
  for (std::size_t i = graph_.outputs.size(); i-- > 0;) {
    ValueId v = graph_.outputs[i].value;
    if (v == ir::kNoValue) continue;
    output_last_use_[i] = !seen[At(v)];
    seen[At(v)] = true;
  }
}

namespace {

c10::IValue TakeSlot(c10::IValue& slot, bool last) { return last ? std::move(slot) : slot; }

// Numbers leave as 0-dim tensors.
at::Tensor TensorOf(c10::IValue v) {
  if (v.isTensor()) return std::move(v).toTensor();
  c10::Scalar s = v.toScalar();
  return at::scalar_tensor(s, at::TensorOptions().dtype(s.type()));
}

}  // namespace

void AtenSequence::Push(const PlanStep& step, Frame& frame) const {
  auto slot_of = [&](const ArgSlot& u) { return TakeSlot(frame.slots[At(u.slot)], u.last); };
  auto number = [&](const ir::Dim& d) {
    if (d.is_constant()) return c10::IValue(d.constant());
    return ir::NumberOf(frame.exprs[At(d.expr)], graph_.exprs[d.expr].type);
  };
  for (const PreparedArg& p : step.args) {
    switch (p.kind) {
      case PreparedArg::Kind::kConstant:
        frame.stack.push_back(p.constant);
        break;
      case PreparedArg::Kind::kSlot:
        frame.stack.push_back(slot_of(p.use));
        break;
      case PreparedArg::Kind::kTensorList: {
        c10::List<at::Tensor> list;
        list.reserve(p.uses.size());
        for (const ArgSlot& u : p.uses) list.push_back(slot_of(u).toTensor());
        frame.stack.emplace_back(std::move(list));
        break;
      }
      case PreparedArg::Kind::kOptionalTensorList: {
        c10::List<std::optional<at::Tensor>> list;
        list.reserve(p.uses.size());
        for (const ArgSlot& u : p.uses) {
          list.push_back(u.slot == kNoSlot ? std::nullopt : std::optional<at::Tensor>(slot_of(u).toTensor()));
        }
        frame.stack.emplace_back(std::move(list));
        break;
      }
      case PreparedArg::Kind::kDim:
        frame.stack.push_back(number(p.dims[0]));
        break;
      case PreparedArg::Kind::kDimList: {
        c10::List<std::int64_t> list;
        list.reserve(p.dims.size());
        for (const ir::Dim& d : p.dims) list.push_back(number(d).toInt());
        frame.stack.emplace_back(std::move(list));
        break;
      }
    }
  }
}

// What was written in place keeps its strides; the operator that stands for the write may choose others for its result.
void AtenSequence::LayOut(std::int32_t value, Frame& frame) const {
  c10::IValue& slot = frame.slots[At(value)];
  const at::Tensor& t = slot.toTensor();
  const ir::Value& recorded = graph_.value(value);
  const auto stride = [&](const ir::Dim& d) { return d.is_constant() ? d.constant() : frame.exprs[At(d.expr)]; };
  bool same = true;
  for (std::size_t d = 0; same && d < recorded.strides.size(); ++d) {
    same = t.sizes()[d] <= 1 || t.strides()[d] == stride(recorded.strides[d]);
  }
  if (same || t.numel() == 0) return;
  std::vector<std::int64_t> strides;
  for (const ir::Dim& d : recorded.strides) strides.push_back(stride(d));
  TORCH_CHECK(t.storage_offset() == 0, "a part of a tensor has other strides than were recorded");
  slot = at::empty_strided(t.sizes(), strides, t.options()).copy_(t);
}

// A small part of a large storage is copied first, as it lies.
void AtenSequence::MakeWhole(c10::IValue& slot) {
  const at::Tensor& t = slot.toTensor();
  if (t.storage().nbytes() <= t.nbytes() && t.storage_offset() == 0) return;
  const bool repeats = at::has_internal_overlap(t) == at::MemOverlap::Yes;  // the operator would not keep such strides
  slot = repeats ? t.clone() : at::empty_strided(t.sizes(), t.strides(), t.options()).copy_(t);
}

void AtenSequence::Pop(const PlanStep& step, Frame& frame) const {
  std::size_t next = 0;
  auto store = [&](c10::IValue v) {
    std::int32_t slot = step.outputs[next++];
    if (slot == kNoSlot) return;
    if (graph_.value(slot).wrapped_number) v.toTensor().unsafeGetTensorImpl()->set_wrapped_number(true);
    frame.slots[At(slot)] = std::move(v);
  };
  for (std::size_t r = 0; r < frame.stack.size(); ++r) {
    bool list = !step.list_sizes.empty() && step.list_sizes[r] >= 0;
    if (!list) {
      store(std::move(frame.stack[r]));
      continue;
    }
    c10::ArrayRef<c10::IValue> elements = frame.stack[r].toListRef();
    TORCH_CHECK(elements.size() == static_cast<std::size_t>(step.list_sizes[r]), "expected ", step.list_sizes[r],
                " tensors, the operator returned ", elements.size());
    for (const c10::IValue& e : elements) store(e);
  }
  frame.stack.clear();
}

void AtenSequence::RunView(const PlanStep& step, Frame& frame) const {
  const ArgSlot& use = step.args[0].use;
  c10::IValue& slot = frame.slots[At(use.slot)];
  at::Tensor view = step.view->View(slot.toTensor());
  if (!view.defined()) {
    const at::Tensor self = slot.toTensor();
    CallOperator(step, frame);
    if (step.outputs[0] != kNoSlot) step.view->Learn(self, frame.slots[At(step.outputs[0])].toTensor());
    return;
  }
  if (use.last || !step.clear.empty()) slot = c10::IValue();
  if (step.outputs[0] != kNoSlot) frame.slots[At(step.outputs[0])] = std::move(view);
}

void AtenSequence::RunStep(const PlanStep& step, Frame& frame) const {
  if (step.laid_out != ir::kNoValue) LayOut(step.laid_out, frame);
  if (step.whole != ir::kNoValue) MakeWhole(frame.slots[At(step.whole)]);
  step.view != nullptr&& frame.views_from_memo ? RunView(step, frame) : CallOperator(step, frame);
}

const c10::OperatorHandle& AtenSequence::HandleOf(const PlanStep& step, Frame& frame) {
  if (step.in_place.op == nullptr) return *step.handle;
  const auto value = [&](ValueId v) -> const at::Tensor& { return frame.slots[At(v)].toTensor(); };
  if (!AreWithin(step.in_place.indices, value(step.args[0].use.slot), value)) return *step.handle;
  frame.wrote = true;
  return step.in_place.op->handle();
}

void AtenSequence::CallOperator(const PlanStep& step, Frame& frame) const {
  auto tensor = [&](std::size_t arg) -> const at::Tensor& {
    return frame.slots[At(step.args[arg].use.slot)].toTensor();
  };
  auto define = [&](at::Tensor t) {
    if (step.outputs[0] != kNoSlot) frame.slots[At(step.outputs[0])] = std::move(t);
  };
  switch (step.call) {
    case Call::kBoxed: {
      const c10::OperatorHandle& handle = HandleOf(step, frame);
      Push(step, frame);
      handle.callBoxed(frame.stack);
      Pop(step, frame);
      break;
    }
    case Call::kUnary:
      define(step.handle->typed<Unary>().call(tensor(0)));
      break;
    case Call::kBinary:
      define(step.handle->typed<Binary>().call(tensor(0), tensor(1)));
      break;
    case Call::kBinaryAlpha:
      define(step.handle->typed<BinaryAlpha>().call(tensor(0), tensor(1), *step.scalars[0]));
      break;
    case Call::kWithScalar:
      define(step.handle->typed<WithScalar>().call(tensor(0), *step.scalars[0]));
      break;
    case Call::kWithScalars:
      define(step.handle->typed<WithScalars>().call(tensor(0), *step.scalars[0], *step.scalars[1]));
      break;
  }
  for (std::int32_t slot : step.written) {
    // Below ADInplaceOrView nobody else counts this write.
    const at::Tensor& t = frame.slots[At(slot)].toTensor();
    if (t.defined() && !t.is_inference()) t.unsafeGetTensorImpl()->bump_version();
  }
  for (std::int32_t slot : step.clear) frame.slots[At(slot)] = c10::IValue();
}

template <typename Tensor>  // const: it is copied, not moved
absl::Status AtenSequence::RunOn(absl::Span<Tensor> inputs, absl::Span<const std::int64_t> symbols,
                                 absl::Span<at::Tensor> outputs) const {
  Frame frame;
  FF_RET_CHECK(inputs.size() == graph_.inputs.size()) << inputs.size() << " inputs for " << graph_.inputs.size();
  frame.slots.resize(graph_.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    frame.slots[At(graph_.inputs[i].value)] = std::move(inputs[i]);
  }
  return Execute(frame, symbols, outputs);
}

absl::Status AtenSequence::Run(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                               absl::Span<at::Tensor> outputs) const {
  return RunOn(inputs, symbols, outputs);
}

absl::Status AtenSequence::RunConsuming(absl::Span<at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                                        absl::Span<at::Tensor> outputs) const {
  return RunOn(inputs, symbols, outputs);
}

absl::Status AtenSequence::Execute(Frame& frame, absl::Span<const std::int64_t> symbols,
                                   absl::Span<at::Tensor> outputs) const {
  if (graph_.exprs.size() > 0) graph_.exprs.EvaluateAll(symbols, &frame.exprs);
  frame.views_from_memo = ViewMemo::MayAnswer();
  const bool checks = says_strides_ && config().verify_metadata;
  const ir::WarningsOfSizesUnsaid unsaid(warns_of_sizes_);
  const PlanStep* current = nullptr;
  try {
    for (std::int32_t i : number_inputs_) {
      c10::IValue& slot = frame.slots[At(graph_.inputs[At(i)].value)];
      slot = slot.toTensor().item();
    }
    for (const ir::ConstantTensor& c : graph_.constants) frame.slots[At(c.value)] = c.tensor;
    for (const PlanStep& step : steps_) {
      current = &step;
      RunStep(step, frame);
      absl::Status found = checks ? CheckLayouts(graph_, step.outputs, frame.slots, frame.exprs) : absl::OkStatus();
      if (!found.ok()) return Annotate(found, graph_.nodes[At(step.node)].op->name());
    }
    current = nullptr;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      ValueId v = graph_.outputs[i].value;
      if (v == ir::kNoValue) continue;
      outputs[i] = TensorOf(TakeSlot(frame.slots[At(v)], output_last_use_[i]));
    }
  } catch (...) {
    const ir::Node* node = current != nullptr ? &graph_.nodes[At(current->node)] : nullptr;
    absl::Status status =
        TorchErrorStatus(std::current_exception(), node != nullptr ? DescribeNode(graph_, *node) : "");
    if (current != nullptr && current->node < first_write_ && !frame.wrote) MarkInputsUntouched(status);
    return status;
  }
  return absl::OkStatus();
}

std::vector<PlanGroup> AtenSequence::Explain() const {
  std::vector<PlanGroup> groups;
  for (const ir::Node& n : graph_.nodes) groups.push_back({DescribeNode(graph_, n), "", 1, 0});
  return groups;
}

}  // namespace framefuse
