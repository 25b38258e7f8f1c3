#include "symbolic/tracing/recorder.h"

#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <utility>

#include "backends/graph/operators.h"
#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/input_sizes.h"
#include "symbolic/tracing/python_operands.h"
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
  const WarningWatch watch(recorder->around.heard_warnings == HeardWarnings::kAll ? nullptr : recorder);
  try {
    recorder->Record(handle, stack);
  } catch (const c10::Error& error) {
    recorder->NoteError(handle, error);
    if (watch.first()) {
      recorder->SetPendingBreak({BreakKind::kWarning, TraitsOf(handle).op->name(), *watch.first(), ""});
    }
    throw;
  }
  if (watch.first()) recorder->Break(BreakKind::kWarning, TraitsOf(handle), *watch.first());
}

std::string OpName(const OpTraits& traits) { return traits.op->name(); }

}  // namespace

Recorder::Recorder() : sizes_(std::make_shared<Sizes>(graph_.exprs)), id_(next_recording.fetch_add(1)) {}

// A node saves what it reads. If that is written with what the node computed, its history leads back to the node, and
// torch never frees the ring.
Recorder::~Recorder() {
  std::vector<at::Tensor> alive;
  for (const auto& written : written_) {
    if (auto fake = written.lock()) alive.emplace_back(std::move(fake));
  }
  ReleaseHistories(alive);
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
  if (recorder->around.heard_warnings != HeardWarnings::kAll) heard_.emplace(recorder);
}

TlsScope::~TlsScope() {
  current_recorder = previous_;
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, previous_included_);
  c10::AutogradState::get_tls_state().set_multithreading_enabled(previous_multithreading_);
}

void Recorder::SetPendingBreak(TensorBreak b) {
  if (!pending_break_) pending_break_ = std::move(b);
}

void Recorder::Break(BreakKind kind, const OpTraits& traits, std::string explanation, std::string hint) {
  SetPendingBreak({kind, OpName(traits), explanation, hint});
  ThrowBreak(kind, OpName(traits), std::move(explanation), std::move(hint));
}

void Recorder::NoteError(const c10::OperatorHandle& handle, const c10::Error& error) {
  error_ = error.what_without_backtrace();
  if (!IsAboutFakes(error_)) return;
  SetPendingBreak({BreakKind::kDataDependent, TraitsOf(handle).op->name(),
                   "the operator reads its arguments' values where they are not known yet", ""});
}

bool Recorder::IsAboutFakes(std::string_view text) {
  // The second: torch makes a tensor of the first argument's kind and takes its dispatch key for a device's. The last
  // two: a result of other sizes is given, and C++ resizes it without the dispatcher.
  constexpr std::array<std::string_view, 4> kWords = {
      kReadsFakeMemory, "DispatchKey Fake", "resize storage that is not resizable", "size_bytes_is_heap_allocated_"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

void Recorder::MarkInput(ir::ValueId value, bool is_inference) {
  if (is_inference) inference_storages_.insert(graph_.value(value).storage);
  is_input_.resize(graph_.values.size(), false);
  is_input_[static_cast<std::size_t>(value)] = true;
}

bool Recorder::IsInput(ir::ValueId value) const {
  return static_cast<std::size_t>(value) < is_input_.size() && is_input_[static_cast<std::size_t>(value)];
}

ir::Dim Recorder::ToDim(const c10::SymInt& s) const { return sizes_->ToDim(s); }

ir::ValueId Recorder::NumberConstant(const at::Tensor& wrapped) {
  // The memory of a wrapped number is real; its bits identify it together with its type.
  std::uint64_t bits = 0;
  const std::size_t size = wrapped.element_size();
  const void* data = wrapped.const_data_ptr();
  if (phase == ir::Phase::kForward && forward_numbers_.insert(data).second) kept_.push_back(wrapped);
  const bool of_formula = phase == ir::Phase::kBackward && !forward_numbers_.contains(data);
  if (size <= sizeof(bits)) {
    std::memcpy(&bits, data, size);
    auto key = std::make_tuple(static_cast<int>(wrapped.scalar_type()), bits, of_formula);
    auto [it, inserted] = numbers_.try_emplace(key, ir::kNoValue);
    if (inserted) {
      it->second = graph_.AddConstant(wrapped);
      graph_.value(it->second).of_formula = of_formula;
    }
    return it->second;
  }
  return graph_.AddConstant(wrapped);
}

ir::ValueId Recorder::AddConstant(const at::Tensor& real) {
  auto [it, inserted] = constants_.try_emplace(real.unsafeGetTensorImpl(), ir::kNoValue);
  if (inserted) {
    TlsScope off(nullptr);
    it->second = graph_.AddConstant(real.detach());
    graph_.value(it->second).storage = NewStorage();
    constant_values_.insert(it->second);
    kept_.push_back(real);
  }
  return it->second;
}

at::Tensor Recorder::ConstantFake(const at::Tensor& real) {
  const ir::ValueId value = AddConstant(real);
  at::Tensor& fake = constant_fakes_[real.unsafeGetTensorImpl()];
  if (!fake.defined()) {
    fake = MakeFake(MakeFakeStorage(real.device(), real.storage().sym_nbytes()), real.sym_sizes(), real.sym_strides(),
                    real.sym_storage_offset(), real.scalar_type(), real.device(), value, id_);
  }
  return fake;
}

at::Tensor Recorder::FreshFromHost(const at::Tensor& real) {
  static const c10::OperatorHandle clone = ir::RequireOp(ir::OpName::kClone)->handle();
  at::Tensor copy;
  {
    TlsScope off(nullptr);
    copy = real.detach().clone();
  }
  torch::jit::Stack stack = {ConstantFake(copy), c10::IValue()};
  RecordPlain(TraitsOf(clone), &stack);
  return stack[0].toTensor();
}

void Recorder::NoteRead(const at::Tensor& t, ir::ValueId value, const OpTraits& traits) {
  if (open_branches.empty()) {
    if (left_graph.contains(value)) {
      Break(BreakKind::kHiddenState, traits, "a tensor made in a branch of cond is used outside of it");
    }
    return;
  }
  for (at::Tensor& known : open_branches.back().read) {
    if (AsFake(known)->value() != value) continue;
    if (!known.requires_grad()) known = t;
    return;
  }
  open_branches.back().read.push_back(t);
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
    if (!open_branches.empty() || !left_graph.empty()) NoteRead(t, fake->value(), traits);
    return fake->value();
  }
  if (t.unsafeGetTensorImpl()->is_wrapped_number()) {
    // Torch makes a number of its own choice for a SymInt.
    const std::optional<ir::Dim> size = sizes().any() ? SizeThatStandsIn(sizes(), t) : std::nullopt;
    if (!size) return NumberConstant(t);
    if (size->is_symbolic() && IsArithmetic(*traits.op)) return ValueOf(TensorOfSize(*this, *size), traits);
    Break(BreakKind::kRealTensor, traits, "a symbolic size stands where a tensor is expected");
  }
  auto it = constants_.find(t.unsafeGetTensorImpl());
  if (it != constants_.end()) return it->second;
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

std::int64_t Recorder::CountGeometryWrites(const FakeImpl* input) const {
  return std::count_if(geometry_writes.begin(), geometry_writes.end(),
                       [&](const GeometryWrite& w) { return w.input == input; });
}

}  // namespace framefuse::tracing
