// Steps of kernels on a CUDA device. See step.h. A kernel that does not compile or launch is named with the user's
// line, and its group runs as ATen operators from then on. Owner: backends/fusion.
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "backends/cuda_runtime/engine.h"
#include "backends/fusion/operands.h"
#include "common/logging.h"
#include "common/status.h"

namespace framefuse::fusion {
namespace {

using cuda::CudaKernel;
using ir::ValueId;

class CudaStep final : public Step {
 public:
  CudaStep(const ir::Graph& graph, std::string description, LoweredGroup lowered, std::int64_t nodes,
           c10::Device device, std::unique_ptr<Step> fallback)
      : description_(std::move(description)),
        nodes_(nodes),
        device_(device),
        operands_(graph, lowered, device),
        fallback_(std::move(fallback)) {
    for (LoweredKernel& k : lowered.kernels) {
      const kernel_ir::LaunchShape hint = HintedShape(k, graph.exprs);
      OneKernel& own = kernels_.emplace_back();
      own.fixed = IsFixed(k);
      own.form = emit::ChooseForm(k.kernel, hint, own.fixed);
      if (own.fixed) {
        own.shape = hint;
        own.launch = emit::MakeCudaLaunch(k.kernel, own.form, hint);
      }
      own.lowered = std::move(k);
    }
  }

  c10::Device device() const { return device_; }
  void AddRequests(std::vector<cuda::KernelRequest>* requests) const {
    for (const OneKernel& k : kernels_) requests->push_back({&k.lowered.kernel, k.form});
  }
  // Takes as many kernels as it asked for.
  void TakeKernels(const std::shared_ptr<const CudaKernel>* made) {
    for (OneKernel& k : kernels_) k.kernel = *made++;
  }
  bool compiled() const { return kernels_.front().kernel != nullptr; }
  // From now on its nodes run as ATen operators.
  void GiveUp(const absl::Status& why) const {
    if (gave_up_.exchange(true)) return;
    FF_LOG(kFusion) << "kernel given up, ATen operators run instead: " << description_ << ": " << MessageOf(why);
  }

  absl::Status Run(CallState& call) const override {
    if (gave_up_.load(std::memory_order_relaxed)) return fallback_->Run(call);
    std::vector<std::pair<ValueId, at::Tensor>> replaced;
    operands_.Prepare(call, &replaced);
    const at::Tensor temporaries = operands_.AllocateTemporaries();
    absl::Status status = absl::OkStatus();
    for (const OneKernel& k : kernels_) {
      status = LaunchOne(k, call, temporaries);
      if (!status.ok()) break;
    }
    StepOperands::Restore(call, std::move(replaced));
    if (status.ok()) return status;
    GiveUp(status);
    return fallback_->Run(call);
  }

  std::vector<ValueId> Reads() const override { return operands_.Reads(); }
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
      auto made = PlainKernel(k);
      if (!made.ok()) return made.status();
      plain = *std::move(made);
      kernel = plain.get();
    }
    cuda::Engine& engine = cuda::TheEngine();
    if (k.fixed) return engine.Launch(*kernel, k.launch, aligned, buffers.data());
    return engine.Launch(*kernel, emit::MakeCudaLaunch(kernel->ir, k.form, shape), aligned, buffers.data());
  }

  // Made at the first call with buffers that are not aligned.
  absl::StatusOr<std::shared_ptr<const CudaKernel>> PlainKernel(const OneKernel& k) const {
    const std::lock_guard lock(plain_mutex_);
    std::shared_ptr<const CudaKernel>& plain = plain_[&k];
    if (plain == nullptr) {
      auto made = cuda::TheEngine().Compile(device_, {{&k.lowered.kernel, emit::PlainForm(k.form)}});
      if (!made.ok()) return made.status();
      plain = made->front();
    }
    return plain;
  }

  std::string description_;
  std::int64_t nodes_;
  c10::Device device_;
  StepOperands operands_;
  std::vector<OneKernel> kernels_;
  std::unique_ptr<Step> fallback_;
  mutable std::atomic<bool> gave_up_ = false;
  mutable std::mutex plain_mutex_;
  mutable std::map<const OneKernel*, std::shared_ptr<const CudaKernel>> plain_;
};

absl::Status CompileTogether(const std::vector<CudaStep*>& steps) {
  std::vector<cuda::KernelRequest> requests;
  for (const CudaStep* s : steps) s->AddRequests(&requests);
  auto made = cuda::TheEngine().Compile(steps.front()->device(), requests);
  if (!made.ok()) return made.status();
  std::size_t at = 0;
  for (CudaStep* s : steps) {
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
  return std::make_unique<CudaStep>(graph, Describe(graph, group), std::move(lowered),
                                    static_cast<std::int64_t>(group.nodes.size()), device, std::move(fallback));
}

void CompileCudaSteps(const std::vector<std::unique_ptr<Step>>& steps) {
  std::vector<CudaStep*> open;
  for (const auto& step : steps) {
    if (auto* s = dynamic_cast<CudaStep*>(step.get())) open.push_back(s);
  }
  while (!open.empty()) {
    std::vector<CudaStep*> together, others;
    for (CudaStep* s : open) (s->device() == open.front()->device() ? together : others).push_back(s);
    open = std::move(others);
    if (absl::Status status = CompileTogether(together); status.ok()) continue;
    // One by one, to know which it is.
    for (CudaStep* s : together) {
      if (absl::Status status = CompileTogether({s}); !status.ok()) s->GiveUp(status);
    }
  }
}

}  // namespace framefuse::fusion
