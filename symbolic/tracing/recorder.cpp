#include "symbolic/tracing/recorder.h"

#include <ATen/ops/_neg_view.h>
#include <ATen/ops/neg.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <atomic>
#include <utility>

#include "backends/graph/collectives.h"
#include "backends/graph/operators.h"
#include "symbolic/tracing/check_setting.h"
#include "symbolic/tracing/check_warnings.h"
#include "symbolic/tracing/gradient_checks.h"
#include "symbolic/tracing/input_sizes.h"
#include "symbolic/tracing/kernel_probe.h"
#include "symbolic/tracing/node_builder.h"
#include "symbolic/tracing/pin_watch.h"
#include "symbolic/tracing/plain_numbers.h"
#include "symbolic/tracing/python_operands.h"
#include "symbolic/tracing/results_into_arguments.h"
#include "symbolic/tracing/run_on_zeros.h"
#include "symbolic/tracing/warning_watch.h"

namespace framefuse::tracing {
namespace {

thread_local Recorder* current_recorder = nullptr;
std::atomic<std::uint64_t> next_recording{1};

void Fallback(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
  Recorder* recorder = Recorder::Current();
  if (recorder == nullptr) {
    ThrowBreak(BreakKind::kStaleTensor, handle.operator_name().name, "a traced tensor was used outside its capture");
  }
  if (HandOnToPython(handle, stack)) return;
  if (const std::optional<std::string> warning = TakeWarningOfCaller()) {
    recorder->Break(BreakKind::kWarning, TraitsOf(handle), *warning);
  }
  const WarningWatch watch(recorder->around().heard_warnings == HeardWarnings::kAll ? nullptr : recorder);
  try {
    recorder->Record(handle, stack);
  } catch (const c10::Error& error) {
    recorder->errors().Note(handle, error);
    if (watch.first()) {
      recorder->SetPendingBreak({BreakKind::kWarning, TraitsOf(handle).op->name(), *watch.first(), ""});
    }
    throw;
  }
  if (watch.first()) recorder->Break(BreakKind::kWarning, TraitsOf(handle), *watch.first());
}

std::string OpName(const OpTraits& traits) { return traits.op->name(); }

}  // namespace

Recorder::Recorder(OpOrigins* origins)
    : origins_(origins), sizes_(std::make_shared<Sizes>(graph_.exprs)), id_(next_recording.fetch_add(1)) {}

Recorder::~Recorder() {
  writes_.ReleaseHistories();
  sizes_->Detach();
}

Recorder* Recorder::Current() { return current_recorder; }
void Recorder::SetCurrent(Recorder* recorder) { current_recorder = recorder; }

void Recorder::Install() {
  static const bool installed = [] {
    // Never destroyed: deregistration at exit would race with torch's own.
    static auto* library = new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::Fake, __FILE__, __LINE__);
    library->fallback(torch::CppFunction::makeFromBoxedFunction<&Fallback>());
    return true;
  }();
  (void)installed;
}

TlsScope::TlsScope(Recorder* recorder)
    : previous_(current_recorder),
      previous_included_(c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake)),
      previous_multithreading_(c10::AutogradState::get_tls_state().get_multithreading_enabled()),
      products_(recorder != nullptr) {
  current_recorder = recorder;
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, recorder != nullptr);
  if (recorder == nullptr) return;
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  said_.emplace();
  if (recorder->around().heard_warnings != HeardWarnings::kAll) heard_.emplace(recorder);
}

TlsScope::~TlsScope() {
  current_recorder = previous_;
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, previous_included_);
  c10::AutogradState::get_tls_state().set_multithreading_enabled(previous_multithreading_);
}

void Recorder::Break(BreakKind kind, const OpTraits& traits, std::string explanation, std::string hint) {
  SetPendingBreak({kind, OpName(traits), explanation, hint});
  ThrowBreak(kind, OpName(traits), std::move(explanation), std::move(hint));
}

void Recorder::Record(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  const OpTraits& traits = TraitsOf(handle);
  if (traits.is_composite) {
    return CallComposite(traits.decomposition, traits, graph_, stack);
  }
  if (around_.set_on_the_way != SetOnTheWay::kNothing) CheckSetting(*this, traits, *stack);
  TieGradientCheck(*this, stack, traits);
  if (formulas_.Continue(*this, traits, stack)) return;
  if (has_negated_) ResolveNegated(traits, stack);
  if (RecordIntoArguments(*this, traits, stack)) return;
  if (traits.special != nullptr && traits.special(*this, handle, stack)) return;
  RecordPlain(traits, stack);
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
  NodeBuilder builder(*this, traits, stack);
  const c10::ArrayRef<c10::IValue> args = builder.args();
  writes_.Check(*this, traits, args);
  if (traits.refusal != nullptr && traits.refusal->refuses(args)) {
    Break(BreakKind::kNoShapeRule, traits, traits.refusal->reason);
  }
  if (const std::optional<std::string> refusal = RefusalOfEmpties(traits.op, args)) {
    Break(BreakKind::kNoShapeRule, traits, "eager's kernel refuses operands without elements: " + *refusal);
  }
  const Outputs outputs = inference_.Infer(*this, traits, &builder);
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
  CheckWarnings(*this, traits, args, answer.warning, outputs);
  // What is waited for shares the result's memory without a view: torch must not take the memory for the result's
  // alone.
  if (ir::WaitsForOthers(builder.node())) waited_for_.push_back(args[0].toTensor());
  builder.Emit(outputs);
}

void Recorder::RecordAs(const OpTraits& traits, torch::jit::Stack* stack, const torch::jit::Stack& results) {
  NodeBuilder builder(*this, traits, stack);
  Outputs outputs;
  builder.DescribeResults(builder.args(), results, &outputs);
  builder.Emit(outputs);
}

ir::Dim Recorder::ToDim(const c10::SymInt& s) const { return sizes_->ToDim(s); }

at::Tensor Recorder::FreshFromHost(const at::Tensor& real) {
  static const c10::OperatorHandle clone = ir::RequireOp(ir::OpName::kClone)->handle();
  at::Tensor copy;
  {
    TlsScope off(nullptr);
    copy = real.detach().clone();
  }
  torch::jit::Stack stack = {constants_.FakeOf(*this, copy), c10::IValue()};
  RecordPlain(TraitsOf(clone), &stack);
  return stack[0].toTensor();
}

namespace {
// Neither their kernels for metadata nor their derivatives look at a number's value.
bool IsArithmetic(const ir::Op& op) {
  using enum ir::OpName;
  static constexpr ir::OpNames kArithmetic{kAddTensor,  kSubTensor,  kMulTensor,  kDivTensor,
                                           kAdd_Tensor, kSub_Tensor, kMul_Tensor, kDiv_Tensor};
  return kArithmetic.contains(&op);
}
}  // namespace

ir::ValueId Recorder::ValueOf(const at::Tensor& t, const OpTraits& traits) {
  if (FakeImpl* fake = AsFake(t)) {
    if (fake->recording() != id_) {
      Break(BreakKind::kStaleTensor, traits, "a tensor of another, finished capture is used");
    }
    branches_.NoteRead(*this, t, fake->value(), traits);
    return fake->value();
  }
  if (t.unsafeGetTensorImpl()->is_wrapped_number()) {
    // Torch makes a number of its own choice for a SymInt.
    const std::optional<ir::Dim> size = sizes().any() ? SizeThatStandsIn(sizes(), t) : std::nullopt;
    if (!size) return constants_.AddNumber(*this, t);
    if (size->is_symbolic() && IsArithmetic(*traits.op)) return ValueOf(TensorOfSize(*this, *size), traits);
    Break(BreakKind::kRealTensor, traits, "a symbolic size stands where a tensor is expected");
  }
  if (const std::optional<ir::ValueId> constant = constants_.Find(t)) return *constant;
  Break(BreakKind::kRealTensor, traits, "a tensor that is not an input of the graph is used");
}

at::Tensor Recorder::NewFake(const OutputMeta& meta, c10::Device device, const c10::Storage* storage,
                             ir::StorageId storage_id) {
  ir::Value v;
  v.dtype = meta.dtype;
  v.device = device;
  v.sizes.reserve(meta.sizes.size());
  v.strides.reserve(meta.strides.size());
  for (const c10::SymInt& s : meta.sizes) v.sizes.push_back(ToDim(s));
  for (const c10::SymInt& s : meta.strides) v.strides.push_back(ToDim(s));
  v.offset = ToDim(meta.offset);
  v.storage = storage_id;
  const ir::ValueId id = graph_.AddValue(std::move(v));
  c10::Storage memory = storage != nullptr
                            ? *storage
                            : MakeFakeStorage(device, StorageBytes(meta.sizes, meta.strides, meta.offset, meta.dtype));
  return MakeFake(std::move(memory), meta.sizes, meta.strides, meta.offset, meta.dtype, device, id, id_);
}

}  // namespace framefuse::tracing
