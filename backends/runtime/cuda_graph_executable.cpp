#include "backends/runtime/cuda_graph_executable.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/graph/collectives.h"
#include "backends/runtime/cuda_graph_run.h"
#include "backends/runtime/recordable.h"
#include "common/index.h"
#include "common/logging.h"
#include "common/status.h"

namespace framefuse {
namespace {

constexpr std::size_t kMostKinds = 8;       // kinds of inputs that are recorded
constexpr std::size_t kMostRecordings = 3;  // of one kind, for runs whose hidden outputs live at the same time
constexpr int kMostRecorded = 12;           // of one kind, ever
constexpr int kPatience = 3;                // runs that wait for inputs to stay where they are

// What a recording of a run presupposes of its inputs, but for where they are.
struct Kind {
  struct Input {
    bool defined = false, inference = false;
    caffe2::TypeMeta dtype;
    std::vector<std::int64_t> sizes, strides;
  };
  std::vector<Input> inputs;
  std::vector<std::int64_t> symbols;

  static Kind Of(absl::Span<const at::Tensor> tensors, absl::Span<const std::int64_t> symbols) {
    Kind kind{{}, {symbols.begin(), symbols.end()}};
    for (const at::Tensor& t : tensors) {
      Input& in = kind.inputs.emplace_back();
      if (t.defined()) in = {true, t.is_inference(), t.dtype(), t.sizes().vec(), t.strides().vec()};
    }
    return kind;
  }
  bool Fits(absl::Span<const at::Tensor> tensors, absl::Span<const std::int64_t> given) const {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const at::Tensor& t = tensors[i];
      const Input& in = inputs[i];
      if (t.defined() != in.defined) return false;
      if (!in.defined) continue;
      if (t.dtype() != in.dtype || t.is_inference() != in.inference || t.sizes() != in.sizes ||
          t.strides() != in.strides)
        return false;
    }
    return std::equal(given.begin(), given.end(), symbols.begin(), symbols.end());
  }
};

// Whether a replay can read these tensors at all.
absl::Status CheckInputs(absl::Span<const at::Tensor> inputs, const RecordingLayout& layout) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& t = inputs[i];
    if (!t.defined() || layout.unread_inputs[i]) continue;
    if (t.layout() != at::kStrided || t.device() != layout.device || t.is_conj() || t.is_neg() ||
        t.key_set().has(c10::DispatchKey::Python)) {
      return absl::FailedPreconditionError("an input is no plain tensor of the device");
    }
    FF_RETURN_IF_ERROR(BytesToCopy(t).status());
  }
  return absl::OkStatus();
}

// One kind of inputs, and its recordings.
class Recordings {
 public:
  // `copied`: inputs that are not waited for.
  Recordings(Kind kind, std::vector<bool> copied)
      : kind_(std::move(kind)), recent_(copied.size()), copied_(std::move(copied)) {}

  const Kind& kind() const { return kind_; }

  const CudaGraphRun* Find(void* stream, absl::Span<const at::Tensor> inputs) const {
    for (const auto& run : runs_) {
      if (run->stream() == stream && !run->IsClosed() && run->IsFree() && run->Matches(inputs)) return run.get();
    }
    return nullptr;
  }

  // Looks where the inputs are, in a run that no recording serves; whether a recording is worth it now.
  bool Observe(absl::Span<const at::Tensor> inputs, const std::vector<bool>& unread) {
    bool settled = observed_++ > 0;
    std::vector<std::size_t> moved;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const void* place = inputs[i].defined() && !unread[i] ? inputs[i].const_data_ptr() : nullptr;
      std::array<const void*, 4>& recent = recent_[i];
      const bool known = std::find(recent.begin(), recent.end(), place) != recent.end() && !IsElsewhere(i, place);
      if (!known && !copied_[i] && place != nullptr) moved.push_back(i);
      std::rotate(recent.begin(), recent.end() - 1, recent.end());
      recent[0] = place;
    }
    if (!settled || given_up_) return false;
    if (!moved.empty() && patience_-- > 0) return false;
    for (std::size_t i : moved) copied_[i] = true;
    return MakeRoom();
  }

  absl::Status Record(CudaGraphRecorder& recorder, const Executable& executable, const RecordingLayout& layout,
                      void* stream, absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols) {
    auto made = CudaGraphRun::Record(recorder, executable, layout, stream, inputs, copied_, symbols);
    if (!made.ok()) {
      GiveUp();
      return made.status();
    }
    runs_.push_back(*std::move(made));
    if (++recorded_ == kMostRecorded) given_up_ = true;
    return absl::OkStatus();
  }
  void GiveUp() { given_up_ = true; }
  std::int64_t copied() const { return std::count(copied_.begin(), copied_.end(), true); }

 private:
  // There are as many recordings as may be, and none reads the input there: it goes round between too many places.
  bool IsElsewhere(std::size_t input, const void* place) const {
    return recorded_ >= static_cast<int>(kMostRecordings) &&
           std::none_of(runs_.begin(), runs_.end(), [&](const auto& run) { return run->ReadsAt(input, place); });
  }

  // Those that are closed go, and the oldest that nobody uses.
  bool MakeRoom() {
    std::erase_if(runs_, [](const auto& run) { return run->IsClosed() && run->IsFree(); });
    if (runs_.size() < kMostRecordings) return true;
    const auto free = std::find_if(runs_.begin(), runs_.end(), [](const auto& run) { return run->IsFree(); });
    if (free == runs_.end()) return false;
    runs_.erase(free);
    return true;
  }

  Kind kind_;
  std::vector<std::array<const void*, 4>> recent_;  // by input, where it was in the last runs
  std::vector<bool> copied_;                        // by input: it moves
  std::vector<std::unique_ptr<CudaGraphRun>> runs_;
  int observed_ = 0, recorded_ = 0, patience_ = kPatience;
  bool given_up_ = false;
};

class CudaGraphExecutable final : public Executable {
 public:
  CudaGraphExecutable(std::unique_ptr<Executable> own, RecordingLayout layout)
      : own_(std::move(own)), layout_(std::move(layout)) {
    layout_.writes = own_->WritesInputs();
  }

  absl::Status Run(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                   absl::Span<at::Tensor> outputs) const override {
    bool done = false;
    absl::Status status = TryRecorded(inputs, symbols, outputs, &done);
    return done ? status : RunOwn(inputs, symbols, outputs);
  }
  absl::Status RunConsuming(absl::Span<at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                            absl::Span<at::Tensor> outputs) const override {
    bool done = false;
    absl::Status status = TryRecorded(inputs, symbols, outputs, &done);
    if (done) return status;
    FF_RETURN_IF_ERROR(SeedsToHost(inputs));
    return Said(own_->RunConsuming(inputs, symbols, outputs));
  }
  void AllowOverwrites(absl::Span<const Overwrite> overwrites) override {
    own_->AllowOverwrites(overwrites);
    layout_.writes = own_->WritesInputs();
    for (const Overwrite& o : overwrites) {
      if (layout_.overlapping[At(o.input)]) continue;
      layout_.overwritten[At(o.output)] = o.input;
      replays_write_ = true;
    }
  }
  bool WritesInputs() const override { return layout_.writes || replays_write_; }
  std::vector<PlanGroup> Explain() const override { return own_->Explain(); }

 private:
  // Another thread, or a finaliser that runs in here, does without recordings.
  class TryLock {
   public:
    explicit TryLock(std::atomic<bool>* taken)
        : taken_(taken), mine_(!taken->exchange(true, std::memory_order_acquire)) {}
    ~TryLock() {
      if (mine_) taken_->store(false, std::memory_order_release);
    }
    TryLock(const TryLock&) = delete;
    TryLock& operator=(const TryLock&) = delete;
    explicit operator bool() const { return mine_; }

   private:
    std::atomic<bool>* taken_;
    bool mine_;
  };

  bool IsSeedOn(c10::DeviceType type, std::size_t i, const at::Tensor& t) const {
    return layout_.wandering_seeds[i] && t.defined() && t.device().type() == type;
  }
  // What is not recorded reads on the host what a recorded forward left on the device.
  absl::Status SeedsToHost(absl::Span<at::Tensor> inputs) const {
    try {
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (IsSeedOn(layout_.device.type(), i, inputs[i])) inputs[i] = inputs[i].cpu();
      }
    } catch (...) {
      return TorchErrorStatus(std::current_exception(), "");
    }
    return absl::OkStatus();
  }
  absl::Status RunOwn(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                      absl::Span<at::Tensor> outputs) const {
    bool moves = false;
    for (std::size_t i = 0; i < inputs.size(); ++i) moves = moves || IsSeedOn(layout_.device.type(), i, inputs[i]);
    if (!moves) return Said(own_->Run(inputs, symbols, outputs));
    std::vector<at::Tensor> given(inputs.begin(), inputs.end());
    FF_RETURN_IF_ERROR(SeedsToHost(absl::MakeSpan(given)));
    return Said(own_->Run(given, symbols, outputs));
  }
  // Of its own failures it says so only where it writes inputs.
  absl::Status Said(absl::Status status) const {
    if (!status.ok() && !layout_.writes) MarkInputsUntouched(status);
    return status;
  }
  // A forward that was not recorded left its seeds there.
  bool AnySeedOnHost(absl::Span<const at::Tensor> inputs) const {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!layout_.device.is_cpu() && IsSeedOn(c10::DeviceType::CPU, i, inputs[i])) return true;
    }
    return false;
  }

  absl::Status TryRecorded(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                           absl::Span<at::Tensor> outputs, bool* done) const {
    CudaGraphRecorder* recorder = TheCudaGraphRecorder();
    const TryLock lock(&taken_);
    if (!lock || recorder == nullptr || AnySeedOnHost(inputs)) return absl::OkStatus();
    const absl::StatusOr<void*> stream = recorder->CurrentStream(layout_.device);
    if (!stream.ok()) return absl::OkStatus();
    Recordings* recordings = FindKind(inputs, symbols);
    if (recordings == nullptr) return absl::OkStatus();
    if (const CudaGraphRun* run = recordings->Find(*stream, inputs)) {
      *done = true;
      return run->Replay(inputs, outputs);
    }
    if (!recordings->Observe(inputs, layout_.unread_inputs)) return absl::OkStatus();
    // This run's results are made as ever; so all that its kernels need is loaded when they are recorded.
    *done = true;
    FF_RETURN_IF_ERROR(RunOwn(inputs, symbols, outputs));
    const absl::Status status = recordings->Record(*recorder, *own_, layout_, *stream, inputs, symbols);
    if (status.ok()) {
      FF_LOG(kFusion) << "CUDA graph recorded: " << inputs.size() << " inputs, " << recordings->copied()
                      << " of them copied; " << outputs.size() << " outputs";
    } else {
      FF_LOG(kFusion) << "no CUDA graph: " << MessageOf(status);
    }
    return absl::OkStatus();
  }

  Recordings* FindKind(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols) const {
    for (const auto& k : kinds_) {
      if (k->kind().Fits(inputs, symbols)) return k.get();
    }
    if (kinds_.size() == kMostKinds) return nullptr;
    kinds_.push_back(std::make_unique<Recordings>(Kind::Of(inputs, symbols), layout_.tangents));
    const absl::Status status = CheckInputs(inputs, layout_);
    if (!status.ok()) {
      kinds_.back()->GiveUp();
      FF_LOG(kFusion) << "no CUDA graph: " << MessageOf(status);
    }
    if (kinds_.size() == kMostKinds) FF_LOG(kFusion) << "no CUDA graph for further sizes: there are " << kMostKinds;
    return kinds_.back().get();
  }

  std::unique_ptr<Executable> own_;
  RecordingLayout layout_;
  bool replays_write_ = false;
  mutable std::atomic<bool> taken_ = false;
  mutable std::vector<std::unique_ptr<Recordings>> kinds_;
};

// The device, where a recorder serves it.
absl::StatusOr<c10::Device> RecorderFor(const ir::Graph& graph) {
  CudaGraphRecorder* recorder = TheCudaGraphRecorder();
  if (recorder == nullptr) return absl::UnavailableError("nothing here can record one");
  absl::StatusOr<c10::Device> device = DeviceToRecordOn(graph);
  if (!device.ok()) return device;
  FF_RETURN_IF_ERROR(recorder->Serves(*device));
  FF_ASSIGN_OR_RETURN(const std::vector<std::string> groups, GroupsOf(graph));
  for (const std::string& group : groups) FF_RETURN_IF_ERROR(recorder->Carries(group, *device));
  return device;
}

RecordingLayout LayoutOf(const ir::Graph& graph, c10::Device device, const BackendOptions& options) {
  RecordingLayout layout;
  layout.device = device;
  layout.overwritten.assign(graph.outputs.size(), -1);
  const std::vector<bool> unread = UnreadSeeds(graph), wandering = WanderingSeeds(graph);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    layout.overlapping.push_back(graph.inputs[i].overlap_class != 0);
    layout.unread_inputs.push_back(unread[At(graph.inputs[i].value)]);
    layout.wandering_seeds.push_back(wandering[At(graph.inputs[i].value)]);
    layout.tangents.push_back(options.first_tangent >= 0 && i >= static_cast<std::size_t>(options.first_tangent));
  }
  for (const ir::Output& o : graph.outputs) {
    layout.unread_outputs.push_back(o.value != ir::kNoValue && unread[At(o.value)]);
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const bool kept = options.first_kept_output >= 0 && i >= static_cast<std::size_t>(options.first_kept_output);
    layout.hidden.push_back(kept && graph.outputs[i].role != ir::OutputRole::kMutatedInput);
  }
  for (const ir::ConstantTensor& c : graph.constants) layout.constants.push_back(c.tensor);
  layout.speaks = std::any_of(graph.nodes.begin(), graph.nodes.end(), &ir::SpeaksToOthers);
  return layout;
}

}  // namespace

ExecutableFactory RecordingFactory(ExecutableFactory factory) {
  return [factory = std::move(factory)](ir::Graph graph,
                                        const BackendOptions& options) -> absl::StatusOr<std::unique_ptr<Executable>> {
    const absl::StatusOr<c10::Device> device = RecorderFor(graph);
    if (!device.ok()) {
      FF_LOG(kFusion) << "no CUDA graph: " << MessageOf(device.status());
      return factory(std::move(graph), options);
    }
    RecordingLayout layout = LayoutOf(graph, *device, options);
    FF_ASSIGN_OR_RETURN(std::unique_ptr<Executable> own, factory(std::move(graph), options));
    return std::make_unique<CudaGraphExecutable>(std::move(own), std::move(layout));
  };
}

}  // namespace framefuse
