// FusedExecutable: a functional graph as kernels where nodes group, and ATen operators for the rest.
// Outputs and values between steps own their storage; partial results of one group share one allocation.
// Invariant: immutable and thread-safe. Inputs are written only where that was allowed, nothing else still reads them,
// and no later step can fail for what it computes. A tensor whose strides are not the recorded ones is copied to the
// recorded layout before a kernel reads it, or before it leaves the graph.
#ifndef FRAMEFUSE_BACKENDS_FUSION_FUSED_EXECUTABLE_H_
#define FRAMEFUSE_BACKENDS_FUSION_FUSED_EXECUTABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/fusion/lower.h"
#include "backends/runtime/executable.h"
#include "common/indexed_vector.h"

namespace framefuse::fusion {

class Step;
class StepUses;
struct CallState;

// Tensors of zeros that torch made without memory, with rules of their own (0 * inf is 0): no kernel can read them, and
// what is computed of them may be one.
bool HasZerosWithoutMemory(const ir::Graph& graph);

class FusedExecutable final : public Executable {
 public:
  static absl::StatusOr<std::unique_ptr<Executable>> Create(ir::Graph graph, const BackendOptions& options);
  ~FusedExecutable() override;

  absl::Status Run(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                   absl::Span<at::Tensor> outputs) const override;
  absl::Status RunConsuming(absl::Span<at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                            absl::Span<at::Tensor> outputs) const override;
  absl::Status RunTelling(absl::Span<at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                          absl::Span<at::Tensor> outputs, absl::Span<const std::size_t> order,
                          absl::FunctionRef<void(std::size_t output)> made) const override;
  absl::Status RunToEnding(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                           absl::Span<at::Tensor> outputs, const std::vector<bool>& apart,
                           std::unique_ptr<Ending>* ending) const override;
  void AllowOverwrites(absl::Span<const Overwrite> overwrites) override;
  bool WritesInputs() const override { return first_write_ < steps_.size(); }
  std::vector<PlanGroup> Explain() const override;

 private:
  class OwnEnding;

  FusedExecutable();
  static absl::StatusOr<std::unique_ptr<Executable>> Make(ir::Graph graph, const BackendOptions& options);
  absl::Status Build(const BackendOptions& options);
  std::size_t LastReader(ir::ValueId input) const;
  // After each step; what it takes of the slots is an output, and no step to come reads it.
  using AfterStep = absl::FunctionRef<absl::Status(const CallState& call, std::size_t step)>;
  absl::Status Execute(IndexedVector<ir::ValueId, at::Tensor>* slots, absl::Span<const std::int64_t> symbols,
                       absl::Span<at::Tensor> outputs, const AfterStep* after = nullptr) const;
  absl::Status RunMeasured(std::size_t s, CallState& call, bool profiled) const;
  template <typename Chosen>
  absl::Status RunSteps(CallState& call, const Chosen& chosen, const AfterStep* after) const;
  IndexedVector<ir::ValueId, at::Tensor> SlotsFor(absl::Span<const at::Tensor> inputs) const;
  void GiveConstants(IndexedVector<ir::ValueId, at::Tensor>* slots) const;
  absl::Status GiveOutput(const CallState& call, std::size_t output, absl::Span<at::Tensor> outputs) const;
  absl::Status LayOutResult(const CallState& call, std::size_t output, at::Tensor* t) const;
  void BeginWritesAt(std::size_t step);
  void FindLaidOut();
  void FindLastReads(const std::vector<int>& last_read);

  ir::Graph graph_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<std::vector<ir::ValueId>> release_;  // values that die after each step
  std::vector<bool> laid_out_;                     // outputs that are to have the recorded layout
  // By output: the last step that reads its value; past the end where the output is another's, too.
  std::vector<std::size_t> last_read_;
  std::unique_ptr<StepUses> uses_;      // for the trace; null without one
  std::size_t first_write_ = SIZE_MAX;  // step that writes an input; 0 where one speaks to others
  bool overwrites_ = false;             // a step writes an input
};

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_FUSED_EXECUTABLE_H_
