#include "symbolic/tracing/tracer.h"

#include <ATen/functorch/BatchedTensorImpl.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <utility>

#include "common/check.h"
#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/input_sizes.h"
#include "symbolic/tracing/known_values.h"
#include "symbolic/tracing/record_branch.h"
#include "symbolic/tracing/sharded_tensors.h"
#include "symbolic/tracing/state.h"

namespace framefuse::tracing {
namespace {

// By the type alone: torch's own check asks the object for its __class__, which may be the user's code.
const at::Tensor* Unpack(BorrowedRef object) {
  const bool is_tensor = object && PyObject_TypeCheck(object.get(), reinterpret_cast<PyTypeObject*>(THPVariableClass));
  return is_tensor ? &THPVariable_Unpack(object.get()) : nullptr;
}

absl::Status Refused(const std::string& why) { return absl::FailedPreconditionError(why); }

// What is not traced, as the explanation of a break.
absl::Status CheckTraceable(const at::Tensor& real) {
  if (real.layout() != c10::Layout::Strided) return Refused("only strided tensors are traced");
  if (real.scalar_type() == c10::ScalarType::ComplexHalf) return Refused("torch warns of each tensor of ComplexHalf");
  if (real.is_quantized()) return Refused("quantized tensors are not traced");
  if (!real.is_cpu() && !real.is_cuda())
    return Refused("tensors on this device are not traced: " + real.device().str());
  using c10::DispatchKey;
  using c10::DispatchKeySet;
  const DispatchKeySet ordinary = c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset |
                                  DispatchKeySet(DispatchKey::ADInplaceOrView) | DispatchKeySet(DispatchKey::Dense);
  const DispatchKeySet rest =
      real.key_set() - ordinary - DispatchKeySet(DispatchKey::CPU) - DispatchKeySet(DispatchKey::CUDA);
  for (DispatchKey k : rest) {
    return Refused(std::string("a tensor with the dispatch key ") + c10::toString(k) + " is not traced");
  }
  if (!real.has_storage()) return Refused("a tensor without storage is not traced");
  try {
    GradientFunction(real);
  } catch (const c10::Error& error) {  // a view that its base's writes have made unusable
    return Refused(error.what_without_backtrace());
  }
  return absl::OkStatus();
}

// THPVariable_Wrap(tensor, type) came after 2.11's branch point on some builds: then the class's own constructor.
template <typename T>
PyObject* WrapAs(const T& tensor, PyTypeObject* type) {
  if constexpr (requires { THPVariable_Wrap(tensor, type); }) {
    return THPVariable_Wrap(tensor, type);
  } else {
    Ref plain = Ref::Steal(THPVariable_Wrap(tensor));
    if (!plain) return nullptr;
    return PyObject_CallMethod(THPVariableClass, "_make_subclass", "OOO", type, plain.get(),
                               tensor.requires_grad() ? Py_True : Py_False);
  }
}

Ref WrapLike(const at::Tensor& fake, PyTypeObject* type) {
  if (type == reinterpret_cast<PyTypeObject*>(THPVariableClass)) return Ref::Steal(THPVariable_Wrap(fake));
  return Ref::Steal(WrapAs(fake, type));
}

absl::Status PythonFailure(const char* what) {
  PyErr_Clear();
  return absl::InternalError(what);
}

}  // namespace

Tracer::Tracer() : state_(std::make_unique<State>()) { Recorder::Install(); }

Tracer::~Tracer() { Drop(); }

void Tracer::Begin() { state_->scopes.push_back(std::make_unique<TlsScope>(state_->recorder.get())); }
void Tracer::End() { state_->scopes.pop_back(); }
bool Tracer::Warned() const { return PendingBreak() && PendingBreak()->kind == BreakKind::kWarning; }
TracedSizes& Tracer::sizes() { return state_->sizes; }
const TracedSizes& Tracer::sizes() const { return state_->sizes; }
Numbers& Tracer::numbers() { return state_->sizes.numbers(); }
Surroundings& Tracer::around() { return state_->recorder->around(); }

// Also outside of the levels of torch.func's transforms.
struct Tracer::Suspended::State {
  State() {
    using c10::DispatchKey;
    if (!c10::impl::tls_is_dispatch_key_included(DispatchKey::FuncTorchDynamicLayerFrontMode)) return;
    transforms.emplace(c10::DispatchKeySet({DispatchKey::FuncTorchDynamicLayerFrontMode, DispatchKey::FuncTorchVmapMode,
                                            DispatchKey::FuncTorchDynamicLayerBackMode}));
  }
  TlsScope off{nullptr};
  std::optional<c10::impl::ExcludeDispatchKeyGuard> transforms;
};
Tracer::Suspended::Suspended() : state_(std::make_unique<State>()) {}
Tracer::Suspended::~Suspended() = default;

std::int32_t Tracer::State::OfOp() {
  if (origins == nullptr) return -1;
  if (recorder->phase() == ir::Phase::kBackward) {
    auto it = origin_of_sequence.find(CurrentBackwardSequence());
    return it == origin_of_sequence.end() ? -1 : it->second;
  }
  const std::int32_t origin = origins->Current();
  if (c10::GradMode::is_enabled()) origin_of_sequence[LastForwardSequence()] = origin;
  return origin;
}

namespace {
// The tensor that levels of torch.func's transforms wrap.
const at::Tensor& Unwrapped(const at::Tensor& t) {
  const at::Tensor* inner = &t;
  while (const auto* batched = at::functorch::maybeGetBatchedImpl(*inner)) inner = &batched->value();
  return *inner;
}
}  // namespace

absl::StatusOr<int> Tracer::State::AddInput(const at::Tensor& real, InputRole role, int input_index,
                                            std::string_view name, SymbolicDims symbolic) {
  if (absl::Status s = CheckTraceable(real); !s.ok()) return s;
  const c10::StorageImpl* memory = real.storage().unsafeGetStorageImpl();
  SharedStorage& shared = storages[memory];
  if (shared.id < 0) {
    shared.fake = MakeFakeStorage(real.device(), real.storage().sym_nbytes());
    shared.id = recorder->NewStorage();
    if (!recorder->inputs().memory().Add(*memory, shared.id)) {
      return Refused("its memory is that of another input's storage, too, and one of them is written");
    }
  }
  InputRecord record;
  ir::Value value = ir::DescribeTensor(real);
  value.storage = shared.id;
  Dims sizes = ToDims(real.sym_sizes()), strides = ToDims(real.sym_strides());
  if (symbolic.any()) {
    const InputSizes own = MakeSizesSymbolic(recorder->sizes(), real, symbolic, &sizes, &strides);
    this->sizes.AddOfInput(input_index, own);
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      value.sizes[d] = recorder->ToDim(sizes[d]);
      value.strides[d] = recorder->ToDim(strides[d]);
    }
  }
  record.value = recorder->graph().AddValue(std::move(value));
  recorder->inputs().Mark(recorder->graph(), record.value, real.is_inference());
  {
    // Inference tensors have no autograd keys: the fake gets them, or not, in the same way.
    c10::InferenceMode inference(real.is_inference());
    record.fake = MakeFake(shared.fake, sizes, strides, real.sym_storage_offset(), real.scalar_type(), real.device(),
                           record.value, recorder->id());
  }
  record.requires_grad = real.requires_grad();
  if (record.requires_grad) AsFake(record.fake)->GiveHistory();
  if (record.requires_grad && IsLeaf(real)) record.fake.set_requires_grad(true);
  if (record.requires_grad && !IsLeaf(real)) record.history = MakeNonLeaf(record.fake);
  record.real = real;
  record.role = role;
  record.name = std::string(name);
  record.input_index = input_index;
  record.version = real.is_inference() ? 0 : record.fake._version();
  record.gradient_function = GradientFunction(record.fake);
  record.storage = shared.fake.unsafeGetStorageImpl();
  const int index = static_cast<int>(inputs.size());
  by_real[real.unsafeGetTensorImpl()] = index;
  by_fake[record.fake.unsafeGetTensorImpl()] = index;
  inputs.push_back(std::move(record));
  return index;
}

absl::StatusOr<Ref> Tracer::MakeInput(BorrowedRef real, InputRole role, int input_index, std::string_view name,
                                      SymbolicDims symbolic) {
  const at::Tensor* tensor = Unpack(real);
  if (tensor == nullptr) return absl::InvalidArgumentError("not a tensor");
  if (!THPVariable_CheckExact(real.get())) {
    return Refused(std::string("the tensor subclass ") + Py_TYPE(real.get())->tp_name + " is not traced");
  }
  Suspended off;
  int index;
  if (auto it = state_->by_real.find(tensor->unsafeGetTensorImpl()); it != state_->by_real.end()) {
    index = it->second;
  } else {
    auto added = state_->AddInput(*tensor, role, input_index, name, symbolic);
    if (!added.ok()) return added.status();
    index = *added;
    // The gradient comes along: torch's own C++ code (AccumulateGrad) reads it unseen.
    const at::Tensor& own = tensor->unsafeGetTensorImpl()->grad();  // Tensor::grad warns, its impl does not
    if (own.defined()) {
      auto found = state_->by_real.find(own.unsafeGetTensorImpl());
      int gradient = -1;
      if (found != state_->by_real.end()) {
        gradient = found->second;
      } else {
        auto grad = state_->AddInput(own, InputRole::kArgument, -1, std::string(name) + ".grad");
        if (!grad.ok()) return grad.status();
        gradient = *grad;
      }
      state_->inputs[static_cast<std::size_t>(gradient)].gradient_of = index;
      state_->inputs[static_cast<std::size_t>(index)].gradient = gradient;
      state_->inputs[static_cast<std::size_t>(index)].fake.mutable_grad() =
          state_->inputs[static_cast<std::size_t>(gradient)].fake;
    }
  }
  InputRecord& record = state_->inputs[static_cast<std::size_t>(index)];
  if (record.input_index < 0) record.input_index = input_index;
  if (!record.python) {
    record.python = WrapLike(record.fake, Py_TYPE(real.get()));
    if (!record.python) return PythonFailure("wrapping a fake failed");
  }
  return record.python;
}

absl::StatusOr<Ref> Tracer::RegisterConstant(BorrowedRef real, bool copy) {
  const at::Tensor* tensor = Unpack(real);
  if (tensor == nullptr) return absl::InvalidArgumentError("not a tensor");
  if (absl::Status s = CheckTraceable(*tensor); !s.ok()) return s;
  Suspended off;
  at::Tensor fake = copy ? state_->recorder->FreshFromHost(*tensor)
                         : state_->recorder->constants().FakeOf(*state_->recorder, *tensor);
  Ref python = WrapLike(fake, reinterpret_cast<PyTypeObject*>(THPVariableClass));
  if (!python) return PythonFailure("wrapping a fake failed");
  state_->constants.push_back(python);
  return python;
}

void Tracer::AskLeaves() { state_->leaves_read = true; }

bool Tracer::MayReachThroughHistory(BorrowedRef outputs, BorrowedRef asked) const {
  std::vector<at::Tensor> starts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs.get()); ++i) {
    const at::Tensor* t = Unpack(BorrowedRef(PyTuple_GET_ITEM(outputs.get(), i)));
    if (t == nullptr) return true;  // an edge of the history
    starts.push_back(*t);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(asked.get()); ++i) {
    const BorrowedRef object(PyTuple_GET_ITEM(asked.get(), i));
    const at::Tensor* target = Unpack(object);
    if (target == nullptr) return true;
    if (InputIndexOf(object) >= 0 && ReachesHistoryOfOther(starts, *target)) return true;
  }
  return false;
}

void Tracer::ForgetError() { state_->recorder->errors().Forget(); }

bool Tracer::IsErrorOfOperator(std::string_view text) const {
  const std::string& error = state_->recorder->errors().last();
  return !error.empty() && text.find(error.substr(0, error.find('\n'))) != std::string_view::npos;
}

bool Tracer::RecordsBackward() const { return state_->recorder->phase() == ir::Phase::kBackward; }

Ref Tracer::KnownValueOf(BorrowedRef fake) {
  const at::Tensor* t = Unpack(fake);
  std::optional<at::Tensor> known = t == nullptr ? std::nullopt : KnownValue(*state_->recorder, *t);
  if (!known && t != nullptr) known = state_->RelyOnNoData(*t);
  return known ? Ref::Steal(THPVariable_Wrap(*known)) : Ref();
}

bool Tracer::IsFake(BorrowedRef object) {
  const at::Tensor* t = Unpack(object);
  if (t == nullptr || !t->defined()) return false;
  return IsShardedFake(object) || AsFake(Unwrapped(*t)) != nullptr;
}

namespace {
template <typename Map>
int FindIndex(const Map& map, BorrowedRef object) {
  const at::Tensor* t = Unpack(object);
  if (t == nullptr) return -1;
  auto it = map.find(t->unsafeGetTensorImpl());
  return it == map.end() ? -1 : it->second;
}
}  // namespace

Ref Tracer::RealOf(BorrowedRef fake) const {
  const int index = FindIndex(state_->by_fake, fake);
  if (index < 0) return nullptr;
  return Ref::Steal(THPVariable_Wrap(state_->inputs[static_cast<std::size_t>(index)].real));
}

BorrowedRef Tracer::FakeOf(BorrowedRef real) const {
  const int index = FindIndex(state_->by_real, real);
  return index < 0 ? BorrowedRef() : BorrowedRef(state_->inputs[static_cast<std::size_t>(index)].python.get());
}

int Tracer::InputIndexOf(BorrowedRef fake) const {
  const int index = FindIndex(state_->by_fake, fake);
  return index < 0 ? -1 : state_->inputs[static_cast<std::size_t>(index)].input_index;
}

Ref Tracer::FakeOfInputValue(int value) const {
  for (const InputRecord& record : state_->inputs) {
    if (record.value == value) return record.python ? record.python : Ref::Steal(THPVariable_Wrap(record.fake));
  }
  return Ref();
}

int Tracer::ValueOf(BorrowedRef fake) const {
  const at::Tensor* t = Unpack(fake);
  const FakeImpl* impl = t == nullptr ? nullptr : AsFake(*t);
  return impl == nullptr || impl->recording() != state_->recorder->id() ? -1 : impl->value();
}

const std::optional<TensorBreak>& Tracer::PendingBreak() const { return state_->recorder->pending_break(); }
void Tracer::SetValueReader(ValueReader* reader) {
  state_->value_reader = reader;
  state_->recorder->SetValues(reader != nullptr ? state_.get() : nullptr);
}
void Tracer::SetOriginProvider(OriginProvider* provider) { state_->origins = provider; }
int Tracer::NodeCount() const { return static_cast<int>(state_->recorder->graph().nodes.size()); }
std::int64_t Tracer::LiveFakes() { return FakeImpl::LiveCount(); }

absl::StatusOr<TracedGraph> Tracer::Close(absl::Span<const BorrowedRef> outputs, bool for_backward,
                                          absl::Span<const Ref> of_functions) {
  std::vector<at::Tensor> tensors;
  for (BorrowedRef object : outputs) {
    const at::Tensor* t = Unpack(object);
    if (t == nullptr || ValueOf(object) < 0)
      return absl::InvalidArgumentError("an output is no tensor of this capture");
    tensors.push_back(*t);
  }
  std::vector<at::Tensor> results;
  for (const Ref& object : of_functions) {
    if (ValueOf(object) >= 0) results.push_back(*Unpack(object));
  }
  TlsScope on(state_->recorder.get());
  absl::StatusOr<TracedGraph> traced =
      CloseRecording(*state_->recorder, state_->inputs, std::move(tensors), results, for_backward, state_->origins);
  if (traced.ok()) traced->leaves_read = traced->leaves_read || state_->leaves_read;
  return traced;
}

void Tracer::BeginConditional(const std::vector<Ref>& readable) {
  std::vector<at::Tensor> tensors;
  for (const InputRecord& record : state_->inputs) tensors.push_back(record.fake);
  for (const Ref& object : readable) {
    if (ValueOf(object) >= 0) tensors.push_back(*Unpack(object));
  }
  tracing::BeginConditional(*state_->recorder, tensors);
}

void Tracer::BeginBranch() { tracing::BeginBranch(*state_->recorder); }

bool Tracer::in_branch() const { return state_->recorder->branches().any_open(); }

absl::Status Tracer::EndBranch(absl::Span<const BorrowedRef> outputs) {
  std::vector<at::Tensor> tensors;
  for (BorrowedRef object : outputs) {
    if (ValueOf(object) < 0) return Refused("it returns a tensor that is not traced");
    tensors.push_back(*Unpack(object));
  }
  return tracing::EndBranch(*state_->recorder, std::move(tensors));
}

namespace {

// A view that torch refuses to give a history stands where it stands: that it is asked for here raises nothing.
const void* HistoryOf(const at::Tensor& t) {
  static constexpr char kRefused = 0;
  try {
    return GradientFunction(t);
  } catch (const c10::Error&) {
    return &kRefused;
  }
}

std::vector<std::uintptr_t> StateOfFake(const at::Tensor& t) {
  const FakeImpl* fake = AsFake(t);
  if (fake == nullptr) return {};
  const auto address = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
  return {static_cast<std::uintptr_t>(fake->value()),
          address(t.storage().unsafeGetStorageImpl()),
          address(HistoryOf(t)),
          address(fake->grad().defined() ? fake->grad().unsafeGetTensorImpl() : nullptr),
          static_cast<std::uintptr_t>(t.requires_grad()),
          static_cast<std::uintptr_t>(t.retains_grad()),
          static_cast<std::uintptr_t>(HasGradientHooks(t)),
          static_cast<std::uintptr_t>(t.is_inference() ? 0 : t._version())};
}

bool IsAsAtEntry(const InputRecord& r, const std::vector<InputRecord>& inputs) {
  const at::Tensor& gradient = r.fake.unsafeGetTensorImpl()->grad();
  const at::Tensor before = r.gradient < 0 ? at::Tensor() : inputs[static_cast<std::size_t>(r.gradient)].fake;
  return AsFake(r.fake)->value() == r.value && r.fake.requires_grad() == r.requires_grad &&
         HistoryOf(r.fake) == r.gradient_function && gradient.unsafeGetTensorImpl() == before.unsafeGetTensorImpl();
}

}  // namespace

std::vector<std::uintptr_t> Tracer::StateOf(BorrowedRef object) {
  const at::Tensor* t = Unpack(object);
  return t == nullptr ? std::vector<std::uintptr_t>() : StateOfFake(*t);
}

std::function<bool()> Tracer::StateOfInputs() const {
  std::vector<std::vector<std::uintptr_t>> states;
  for (const InputRecord& record : state_->inputs) states.push_back(StateOfFake(record.fake));
  return [this, states = std::move(states)] {
    const std::vector<InputRecord>& inputs = state_->inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool same = i < states.size() ? states[i] == StateOfFake(inputs[i].fake) : IsAsAtEntry(inputs[i], inputs);
      if (!same) return false;
    }
    return true;
  };
}

namespace {
Ref ListOf(const std::vector<std::int64_t>& values) {
  Ref list = Ref::Steal(PyList_New(0));
  for (const std::int64_t v : values) PyList_Append(list.get(), Ref::Steal(PyLong_FromLongLong(v)).get());
  return list;
}

// Python's overloads of the operator, found when the package is imported and kept for ever.
PyObject* cond_operators[2] = {};

}  // namespace

void SetCondOperators(Ref plain, Ref random) {
  cond_operators[0] = plain.release();
  cond_operators[1] = random.release();
}

namespace {
absl::StatusOr<Tracer::CondCall> CallOf(absl::StatusOr<JoinedBranches> joined) {
  if (!joined.ok()) return joined.status();
  Ref operands = Ref::Steal(PyList_New(0));
  for (const at::Tensor& t : joined->operands) {
    PyList_Append(operands.get(), WrapLike(t, reinterpret_cast<PyTypeObject*>(THPVariableClass)).get());
  }
  Tracer::CondCall call;
  call.op = Ref::Create(cond_operators[joined->random ? 1 : 0]);
  call.args =
      Ref::Steal(Py_BuildValue("(ssO)", joined->branches[1].c_str(), joined->branches[0].c_str(), operands.get()));
  call.kwargs = Ref::Steal(PyDict_New());
  if (!call.op || !call.args || !call.kwargs) return PythonFailure("the operator of a conditional cannot be called");
  call.replays = !joined->random_devices.empty();
  if (joined->with_gradient.empty()) return call;
  call.kwargs = Ref::Steal(
      Py_BuildValue("{s:s,s:s,s:O,s:O,s:O,s:O}", "true_backward", joined->backward[1].c_str(), "false_backward",
                    joined->backward[0].c_str(), "saved", ListOf(joined->saved).get(), "differentiable",
                    ListOf(joined->differentiable).get(), "with_gradient", ListOf(joined->with_gradient).get(),
                    "random_devices", ListOf(joined->random_devices).get()));
  if (!call.kwargs) return PythonFailure("the operator of a conditional cannot be called");
  return call;
}
}  // namespace

absl::StatusOr<Tracer::CondCall> Tracer::JoinBranches() {
  return CallOf(tracing::JoinBranches(*state_->recorder, state_->origins));
}

absl::StatusOr<Tracer::CondCall> Tracer::JoinOneBranch() {
  return CallOf(tracing::JoinOneBranch(*state_->recorder, state_->origins));
}

void Tracer::Drop() {
  FF_CHECK(state_->scopes.empty()) << "Drop inside Begin and End";
  TlsScope off(nullptr);
  ForgetCasts();
  ForgetUnrunTasks();
  // Gradients and histories of input fakes may refer back to them.
  for (InputRecord& record : state_->inputs) {
    record.fake.mutable_grad().reset();
    record.python.reset();
  }
  state_->inputs.clear();
  state_->by_real.clear();
  state_->by_fake.clear();
  state_->storages.clear();
  state_->constants.clear();
  state_->origin_of_sequence.clear();
  state_->sizes.numbers().Clear();
  state_->recorder = std::make_unique<Recorder>(state_.get());
}

TracerStatistics Tracer::Statistics() const {
  const RecorderStatistics& s = state_->recorder->statistics();
  TracerStatistics out;
  out.nodes = NodeCount();
  out.own_shapes = s.own_shapes;
  out.cpp_meta = s.cpp_meta;
  out.composite_meta = s.composite_meta;
  out.runs_for_metadata = s.runs_for_metadata;
  out.python_meta = s.python_meta;
  out.python_ops.assign(s.python_ops.begin(), s.python_ops.end());
  return out;
}

}  // namespace framefuse::tracing
