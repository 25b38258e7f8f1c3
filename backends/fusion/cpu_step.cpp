// Steps of kernels on the CPU. See step.h.
#include <algorithm>
#include <optional>

#include "backends/cpu_runtime/launch.h"
#include "backends/fusion/merge_steps.h"
#include "backends/fusion/operands.h"
#include "common/logging.h"
#include "common/status.h"

namespace framefuse::fusion {
namespace {

using cpu::CpuKernel;
using cpu::Launch;
using ir::ValueId;

struct OneKernel {
  LoweredKernel lowered;
  std::shared_ptr<const CpuKernel> kernel;
  std::optional<Launch> launch;  // where all sizes are constants
};

bool Holds(const IndexCheck& check, const CallState& call) {
  const at::Tensor& index = call.slots[check.index];
  const std::int64_t extent = call.Value(check.extent), least = check.wraps ? -extent : 0;
  const at::Tensor all = index.dim() == 1 ? index : index.reshape({-1});
  const auto hold = [&]<typename T>(const T* values) {
    const std::int64_t stride = all.stride(0), count = all.size(0);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t v = values[i * stride];
      if ((v < least || v >= extent) && v != check.ignored) return false;
    }
    return true;
  };
  return index.scalar_type() == c10::ScalarType::Int ? hold(all.const_data_ptr<std::int32_t>())
                                                     : hold(all.const_data_ptr<std::int64_t>());
}

class CpuStep final : public Step {
 public:
  CpuStep(const ir::Graph& graph, const Group& group, LoweredGroup lowered, std::unique_ptr<Step> fallback)
      : description_(Describe(graph, group)),
        range_name_(RangeNameOf(graph, group)),
        nodes_(static_cast<std::int64_t>(group.nodes.size())),
        operands_(graph, lowered, c10::Device(c10::kCPU)),
        checks_(std::move(lowered.checks)),
        fallback_(std::move(fallback)) {
    for (LoweredKernel& k : lowered.kernels) kernels_.push_back({std::move(k), nullptr, std::nullopt});
  }

  absl::Status Compile() {
    for (OneKernel& k : kernels_) {
      auto made = CpuKernel::Get(k.lowered.kernel, cpu::Engine::kBest, description_);
      if (!made.ok()) return made.status();
      k.kernel = *std::move(made);
      FF_LOG(kOutputCode) << description_ << "\n" << Text(k);
      if (IsFixed(k.lowered)) k.launch.emplace(k.kernel, FixedShape(k.lowered));
    }
    return absl::OkStatus();
  }

  absl::Status Run(CallState& call) const override {
    if (!std::all_of(checks_.begin(), checks_.end(), [&](const IndexCheck& c) { return Holds(c, call); })) {
      return fallback_->Run(call);
    }
    std::vector<std::pair<ValueId, at::Tensor>> replaced;
    operands_.Prepare(call, &replaced);
    const at::Tensor temporaries = operands_.AllocateTemporaries();
    for (const OneKernel& k : kernels_) {
      std::array<void*, 80> buffers;
      operands_.FillPointers(call, k.lowered, temporaries, buffers.data());
      if (k.launch) {
        k.launch->Run(buffers.data());
      } else {
        Launch(k.kernel, ShapeAt(k.lowered, call)).Run(buffers.data());
      }
    }
    StepOperands::Restore(call, std::move(replaced));
    return absl::OkStatus();
  }

  bool IsKernel() const override { return checks_.empty(); }
  absl::Span<const ir::NodeIndex> Operators() const override {
    return fallback_ == nullptr ? absl::Span<const ir::NodeIndex>() : fallback_->Operators();
  }
  bool WriteOver(ValueId result, ValueId input) override {
    return kernels_.size() == 1 && ReadsBeforeItWrites(kernels_[0].lowered, result, input) &&
           operands_.WriteOver(result, input);
  }

  const StepOperands& operands() const { return operands_; }
  const std::string& description() const { return description_; }
  std::int64_t nodes() const { return nodes_; }
  std::vector<ValueId> Reads() const override { return operands_.Reads(); }
  std::vector<ValueId> Results() const override { return operands_.Writes(); }
  std::string RangeName() const override { return range_name_; }

  std::vector<PlanGroup> Explain() const override {
    PlanGroup group{description_, "", nodes_, operands_.bytes()};
    for (const OneKernel& k : kernels_) group.code += Text(k);
    return {std::move(group)};
  }

  // The kernel, if this step is one flat kernel of constant size.
  const OneKernel* Flat() const {
    const bool flat = kernels_.size() == 1 && kernels_[0].launch && kernels_[0].lowered.kernel.outer_rank == 0 &&
                      kernels_[0].lowered.kernel.skeleton == kernel_ir::Skeleton::kPointwise;
    return flat ? &kernels_[0] : nullptr;
  }
  bool CanMerge() const { return Flat() != nullptr; }

 private:
  static std::string Text(const OneKernel& k) {
    return Print(k.lowered.kernel) + (k.kernel->is_machine_code()
                                          ? "# " + std::to_string(k.kernel->code_bytes()) + " bytes of machine code\n"
                                          : "# interpreted: " + k.kernel->reason() + "\n");
  }

  std::string description_, range_name_;
  std::int64_t nodes_;
  StepOperands operands_;
  std::vector<OneKernel> kernels_;
  std::vector<IndexCheck> checks_;
  std::unique_ptr<Step> fallback_;  // where there are checks
};

// One kernel over many tensors.
class HorizontalStep final : public Step {
 public:
  explicit HorizontalStep(Parts<CpuStep> parts) : parts_(std::move(parts)) {
    for (const auto& p : parts_) counts_.push_back(p->Flat()->launch->shape().inner);
  }

  bool IsKernel() const override { return true; }
  bool WriteOver(ValueId result, ValueId input) override { return WriteOverInParts(parts_, result, input); }

  absl::Status Run(CallState& call) const override {
    std::vector<std::vector<void*>> tables;
    std::vector<std::pair<ValueId, at::Tensor>> replaced;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      parts_[p]->operands().Prepare(call, &replaced);
      std::vector<void*>& row = tables.emplace_back();
      for (const KernelBuffer& b : parts_[p]->Flat()->lowered.buffers) {
        row.push_back(call.slots[b.value].data_ptr());
      }
    }
    parts_[0]->Flat()->launch->RunTable(tables, counts_);
    StepOperands::Restore(call, std::move(replaced));
    return absl::OkStatus();
  }
  std::vector<ValueId> Reads() const override { return ReadsOf(parts_); }
  std::vector<ValueId> Results() const override { return ResultsOf(parts_); }
  std::string RangeName() const override { return parts_[0]->RangeName(); }
  std::vector<PlanGroup> Explain() const override { return {ExplainParts(parts_, parts_[0]->Explain()[0].code)}; }

 private:
  Parts<CpuStep> parts_;
  std::vector<std::int64_t> counts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> MakeCpuStep(const ir::Graph& graph, const Group& group, LoweredGroup lowered,
                                                  std::unique_ptr<Step> fallback) {
  auto step = std::make_unique<CpuStep>(graph, group, std::move(lowered), std::move(fallback));
  FF_RETURN_IF_ERROR(step->Compile());
  return step;
}

void MergeHorizontally(std::vector<std::unique_ptr<Step>>* steps) {
  // They run with the strides of the first.
  const auto fits = [](const CpuStep& a, const CpuStep& b) {
    const auto same = [](const cpu::BufferStrides& x, const cpu::BufferStrides& y) { return x.inner == y.inner; };
    const auto &of_a = a.Flat()->launch->shape().buffers, &of_b = b.Flat()->launch->shape().buffers;
    return a.Flat()->kernel == b.Flat()->kernel && std::ranges::equal(of_a, of_b, same);
  };
  MergeRuns<CpuStep>(steps, fits,
                     [](Parts<CpuStep> parts) { return std::make_unique<HorizontalStep>(std::move(parts)); });
}

}  // namespace framefuse::fusion
