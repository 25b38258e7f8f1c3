// Steps of kernels on a CUDA device. See step.h. A kernel that does not compile or launch is named with the user's
// line, and its group runs as ATen operators from then on.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

#include "backends/cuda_runtime/engine.h"
#include "backends/fusion/merge_steps.h"
#include "backends/fusion/operands.h"
#include "backends/graph/recording_probe.h"
#include "backends/runtime/cuda_graph_recorder.h"
#include "common/logging.h"
#include "common/status.h"

namespace framefuse::fusion {
namespace {

using cuda::CudaKernel;
using ir::ValueId;

// Says that a kernel is not to be had in this call; nothing is wrong with it.
absl::Status NotInARecording() {
  return absl::FailedPreconditionError("a kernel for unaligned memory was first needed while its stream is recorded");
}
bool IsNotInARecording(const absl::Status& status) { return absl::IsFailedPrecondition(status); }

// What runs for a kernel of an exact form where buffers are not aligned; made when it is first needed.
class PlainKernel {
 public:
  absl::StatusOr<std::shared_ptr<const CudaKernel>> Get(c10::Device device, const kernel_ir::Kernel& kernel,
                                                        const emit::CudaForm& form) {
    {
      const std::lock_guard lock(mutex_);
      if (kernel_ != nullptr) return kernel_;
    }
    if (IsStreamRecorded()) return NotInARecording();  // not with the lock: it takes the GIL
    const std::lock_guard lock(mutex_);
    if (kernel_ == nullptr) {
      auto made = cuda::TheEngine().Compile(device, {{&kernel, emit::PlainForm(kernel, form)}});
      if (!made.ok()) return made.status();
      kernel_ = made->front();
    }
    return kernel_;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<const CudaKernel> kernel_;
};

// A step that asks for kernels and gets them later.
class CompiledStep : public Step {
 public:
  virtual c10::Device device() const = 0;
  virtual void AddRequests(std::vector<cuda::KernelRequest>* requests) const = 0;
  // As many kernels as it asked for.
  virtual void TakeKernels(const std::shared_ptr<const CudaKernel>* made) = 0;
  // From now on its nodes run as ATen operators.
  virtual void GiveUp(const absl::Status& why) const = 0;
};

class CudaStep final : public CompiledStep {
 public:
  CudaStep(const ir::Graph& graph, const Group& group, LoweredGroup lowered, c10::Device device,
           std::unique_ptr<Step> fallback)
      : description_(Describe(graph, group)),
        range_name_(RangeNameOf(graph, group)),
        nodes_(static_cast<std::int64_t>(group.nodes.size())),
        device_(device),
        operands_(graph, lowered, device),
        fallback_(std::move(fallback)) {
    for (LoweredKernel& k : lowered.kernels) {
      const kernel_ir::LaunchShape hint = HintedShape(k, graph.exprs);
      OneKernel& own = kernels_.emplace_back();
      own.fixed = IsFixed(k);
      own.form = emit::ChooseForm(k.kernel, hint, own.fixed, cuda::TheEngine().Processors(device));
      if (own.fixed) {
        own.shape = hint;
        own.launch = emit::MakeCudaLaunch(k.kernel, own.form, hint);
      }
      own.lowered = std::move(k);
    }
  }

  c10::Device device() const override { return device_; }
  void AddRequests(std::vector<cuda::KernelRequest>* requests) const override {
    for (const OneKernel& k : kernels_) requests->push_back({&k.lowered.kernel, k.form});
  }
  void TakeKernels(const std::shared_ptr<const CudaKernel>* made) override {
    for (OneKernel& k : kernels_) k.kernel = *made++;
  }
  void GiveUp(const absl::Status& why) const override {
    if (gave_up_.exchange(true)) return;
    FF_LOG(kFusion) << "kernel given up, ATen operators run instead: " << description_ << ": " << MessageOf(why);
  }

  std::int64_t nodes() const { return nodes_; }
  absl::Status Run(CallState& call) const override {
    if (gave_up_.load(std::memory_order_relaxed) || operands_.AnyEmpty(call)) return fallback_->Run(call);
    std::vector<std::pair<ValueId, at::Tensor>> replaced;
    operands_.Prepare(call, &replaced);
    const at::Tensor temporaries = operands_.AllocateTemporaries();
    absl::Status status = absl::OkStatus();
    for (const OneKernel& k : kernels_) {
      status = LaunchOne(k, call, temporaries);
      if (!status.ok()) break;
    }
    StepOperands::Restore(call, std::move(replaced));
    if (status.ok() || IsRecording()) return status;
    if (!IsNotInARecording(status)) GiveUp(status);
    return fallback_->Run(call);
  }

  bool IsKernel() const override { return !gave_up_; }
  bool WriteOver(ValueId result, ValueId input) override {
    return kernels_.size() == 1 && ReadsBeforeItWrites(kernels_[0].lowered, result, input) &&
           operands_.WriteOver(result, input);
  }

  const StepOperands& operands() const { return operands_; }
  Step& fallback() const { return *fallback_; }
  const std::string& description() const { return description_; }
  // The kernel, if this step is one kernel of constant size.
  struct FixedKernel {
    const LoweredKernel& lowered;
    const emit::CudaForm& form;
    const kernel_ir::LaunchShape& shape;
    // A table of tensors of many sizes has no strides.
    bool is_flat() const {
      const bool strided = std::ranges::any_of(lowered.kernel.buffers,
                                               [](const auto& b) { return b.inner == kernel_ir::Inner::kStrided; });
      return form.rank == 0 && !strided && lowered.kernel.skeleton == kernel_ir::Skeleton::kPointwise;
    }
  };
  std::optional<FixedKernel> Fixed() const {
    const OneKernel& k = kernels_.front();
    const auto some = [](std::int64_t n) { return n > 0; };
    const bool fixed = kernels_.size() == 1 && k.fixed && some(k.shape.inner) &&
                       std::all_of(k.shape.extents.begin(), k.shape.extents.end(), some);
    return fixed ? std::optional<FixedKernel>({k.lowered, k.form, k.shape}) : std::nullopt;
  }
  bool CanMerge() const { return Fixed().has_value(); }

  std::vector<ValueId> Reads() const override { return operands_.Reads(); }
  std::vector<ValueId> Results() const override { return operands_.Writes(); }
  std::string RangeName() const override { return range_name_; }
  std::vector<PlanGroup> Explain() const override {
    if (gave_up_) return fallback_->Explain();
    PlanGroup group{description_, "", nodes_, operands_.bytes()};
    for (const OneKernel& k : kernels_) group.code += "// " + description_ + "\n" + k.kernel->text;
    return {std::move(group)};
  }

 private:
  struct OneKernel {
    LoweredKernel lowered;
    emit::CudaForm form;
    bool fixed = false;  // shape and launch hold for every call
    kernel_ir::LaunchShape shape;
    emit::CudaLaunch launch;
    std::shared_ptr<const CudaKernel> kernel;
    std::unique_ptr<PlainKernel> plain = std::make_unique<PlainKernel>();
  };

  absl::Status LaunchOne(const OneKernel& k, const CallState& call, const at::Tensor& temporaries) const {
    std::array<void*, 80> buffers;
    operands_.FillPointers(call, k.lowered, temporaries, buffers.data());
    kernel_ir::LaunchShape own;
    if (!k.fixed) own = ShapeAt(k.lowered, call);
    const kernel_ir::LaunchShape& shape = k.fixed ? k.shape : own;
    const CudaKernel* kernel = k.kernel.get();
    const bool aligned = emit::IsAligned(kernel->ir, k.form, shape, buffers.data());
    std::shared_ptr<const CudaKernel> plain;
    if (!aligned && k.form.exact) {
      auto made = k.plain->Get(device_, k.lowered.kernel, k.form);
      if (!made.ok()) return made.status();
      plain = *std::move(made);
      kernel = plain.get();
    }
    cuda::Engine& engine = cuda::TheEngine();
    if (k.fixed) return engine.Launch(*kernel, k.launch, aligned, buffers.data());
    return engine.Launch(*kernel, emit::MakeCudaLaunch(kernel->ir, k.form, shape), aligned, buffers.data());
  }

  std::string description_, range_name_;
  std::int64_t nodes_;
  c10::Device device_;
  StepOperands operands_;
  std::vector<OneKernel> kernels_;
  std::unique_ptr<Step> fallback_;
  mutable std::atomic<bool> gave_up_ = false;
};

// One kernel over many tensors.
class CudaTableStep final : public CompiledStep {
 public:
  explicit CudaTableStep(Parts<CudaStep> parts) : parts_(std::move(parts)) {
    const CudaStep::FixedKernel first = *parts_[0]->Fixed();
    std::vector<std::int64_t> all;
    all.reserve(parts_.size());
    for (const auto& p : parts_) all.push_back(p->Fixed()->shape.inner);
    form_ = first.is_flat() ? emit::TableForm(Kernel(), first.form, all) : emit::AlikeForm(Kernel(), first.form);
    const auto each = static_cast<std::size_t>(form_.tensors);
    for (std::size_t i = 0; i < parts_.size(); i += each) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i);
      const std::size_t n = std::min(each, all.size() - i);
      launches_.push_back(
          form_.alike ? emit::MakeAlikeLaunch(Kernel(), form_, first.shape, n)
                      : emit::MakeTableLaunch(Kernel(), form_, {begin, begin + static_cast<std::ptrdiff_t>(n)}));
    }
  }

  c10::Device device() const override { return parts_[0]->device(); }
  void AddRequests(std::vector<cuda::KernelRequest>* requests) const override {
    requests->push_back({&Kernel(), form_});
  }
  void TakeKernels(const std::shared_ptr<const CudaKernel>* made) override { kernel_ = *made; }
  void GiveUp(const absl::Status& why) const override {
    gave_up_ = true;
    for (const auto& p : parts_) p->GiveUp(why);
  }

  absl::Status Run(CallState& call) const override {
    std::size_t done = 0;  // parts: what they wrote over is not read again
    if (!gave_up_.load(std::memory_order_relaxed)) {
      absl::Status status = LaunchAll(call, &done);
      if (status.ok() || IsRecording()) return status;
      if (!IsNotInARecording(status)) GiveUp(status);
    }
    call.dying = nullptr;  // more than one part may read it
    for (; done < parts_.size(); ++done) FF_RETURN_IF_ERROR(parts_[done]->fallback().Run(call));
    return absl::OkStatus();
  }

  bool IsKernel() const override { return !gave_up_; }
  bool WriteOver(ValueId result, ValueId input) override { return WriteOverInParts(parts_, result, input); }

  std::vector<ValueId> Reads() const override { return ReadsOf(parts_); }
  std::vector<ValueId> Results() const override { return ResultsOf(parts_); }
  std::string RangeName() const override { return parts_[0]->RangeName(); }
  std::vector<PlanGroup> Explain() const override {
    return {ExplainParts(parts_, kernel_ == nullptr ? "" : kernel_->text)};
  }

 private:
  const kernel_ir::Kernel& Kernel() const { return parts_[0]->Fixed()->lowered.kernel; }

  absl::Status LaunchAll(CallState& call, std::size_t* done) const {
    std::vector<std::pair<ValueId, at::Tensor>> replaced;
    absl::Status status = absl::OkStatus();
    std::size_t next = 0;
    for (const emit::CudaLaunch& launch : launches_) {
      std::vector<void*> pointers;
      bool aligned = true;
      for (unsigned t = 0; t < launch.tensors; ++t) {
        const CudaStep& part = *parts_[next++];
        part.operands().Prepare(call, &replaced);
        const std::size_t begin = pointers.size();
        pointers.resize(begin + Kernel().buffers.size());
        part.operands().FillPointers(call, part.Fixed()->lowered, {}, pointers.data() + begin);
        aligned = aligned && emit::IsAligned(Kernel(), form_, part.Fixed()->shape, pointers.data() + begin);
      }
      const CudaKernel* kernel = kernel_.get();
      std::shared_ptr<const CudaKernel> plain;
      if (!aligned && form_.exact) {
        auto made = plain_.Get(device(), Kernel(), form_);
        status = made.status();
        if (!status.ok()) break;
        plain = *std::move(made);
        kernel = plain.get();
      }
      status = cuda::TheEngine().Launch(*kernel, launch, aligned, pointers.data());
      if (!status.ok()) break;
      *done = next;
    }
    StepOperands::Restore(call, std::move(replaced));
    return status;
  }

  Parts<CudaStep> parts_;
  emit::CudaForm form_;
  std::vector<emit::CudaLaunch> launches_;
  std::shared_ptr<const CudaKernel> kernel_;
  mutable PlainKernel plain_;
  mutable std::atomic<bool> gave_up_ = false;
};

bool FitTogether(const CudaStep& a, const CudaStep& b) {
  if (a.device() != b.device()) return false;
  const auto x = *a.Fixed(), y = *b.Fixed();
  if (x.is_flat() != y.is_flat() || !x.lowered.kernel.SameBody(y.lowered.kernel)) return false;
  if (!x.is_flat()) return x.form == y.form && x.shape == y.shape;
  const auto vector = [](const CudaStep::FixedKernel& k) {
    return emit::TableForm(k.lowered.kernel, k.form, {k.shape.inner}).vector;
  };
  return vector(x) == vector(y);
}

absl::Status CompileTogether(const std::vector<CompiledStep*>& steps) {
  std::vector<cuda::KernelRequest> requests;
  for (const CompiledStep* s : steps) s->AddRequests(&requests);
  auto made = cuda::TheEngine().Compile(steps.front()->device(), requests);
  if (!made.ok()) return made.status();
  std::size_t at = 0;
  for (CompiledStep* s : steps) {
    std::vector<cuda::KernelRequest> own;
    s->AddRequests(&own);
    s->TakeKernels(made->data() + at);
    at += own.size();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> MakeCudaStep(const ir::Graph& graph, const Group& group, LoweredGroup lowered,
                                                   std::unique_ptr<Step> fallback) {
  const c10::Device device = graph.value(graph.nodes[static_cast<std::size_t>(group.nodes[0])].outputs[0]).device;
  return std::make_unique<CudaStep>(graph, group, std::move(lowered), device, std::move(fallback));
}

void CompileCudaSteps(std::vector<std::unique_ptr<Step>>* steps) {
  MergeRuns<CudaStep>(steps, FitTogether,
                      [](Parts<CudaStep> parts) { return std::make_unique<CudaTableStep>(std::move(parts)); });
  std::vector<CompiledStep*> open;
  for (const auto& step : *steps) {
    if (auto* s = dynamic_cast<CompiledStep*>(step.get())) open.push_back(s);
  }
  while (!open.empty()) {
    std::vector<CompiledStep*> together, others;
    for (CompiledStep* s : open) (s->device() == open.front()->device() ? together : others).push_back(s);
    open = std::move(others);
    if (absl::Status status = CompileTogether(together); status.ok()) continue;
    // One by one, to know which it is.
    for (CompiledStep* s : together) {
      if (absl::Status status = CompileTogether({s}); !status.ok()) s->GiveUp(status);
    }
  }
}

}  // namespace framefuse::fusion
