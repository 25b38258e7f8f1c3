// AtenSequence: a graph as a flat list of ATen calls over slots, each through its cached operator handle.
// Invariant: a slot is cleared (moved into the call) at its last use, so memory lives as long as eager's would.
// It runs at whatever dispatch level the caller has set: below autograd as an Executable, through autograd when
// a backward is itself differentiated.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_ATEN_SEQUENCE_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_ATEN_SEQUENCE_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "backends/runtime/executable.h"

namespace framefuse {

class AtenSequence final : public Executable {
 public:
  static absl::StatusOr<std::unique_ptr<Executable>> Create(ir::Graph graph, const BackendOptions& options);
  // Of a graph in which other operators or kernels stand for those that it was recorded with: its strides are theirs.
  static absl::StatusOr<std::unique_ptr<AtenSequence>> CreateRewritten(ir::Graph graph);
  ~AtenSequence() override;

  absl::Status Run(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                   absl::Span<at::Tensor> outputs) const override;
  absl::Status RunConsuming(absl::Span<at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                            absl::Span<at::Tensor> outputs) const override;
  // The node that makes the output, which has an InPlaceForm, writes the input's memory from now on. Nothing else reads
  // the input. Called before any Run.
  void WriteOver(std::size_t output);
  bool WritesInputs() const override { return first_write_ < kNoWrite; }
  std::vector<PlanGroup> Explain() const override;

 private:
  struct PlanStep;
  struct Frame;
  static constexpr std::int32_t kNoWrite = std::numeric_limits<std::int32_t>::max();
  AtenSequence();
  void Build();
  PlanStep StepOf(std::int32_t index) const;
  void EndValues(PlanStep* step, std::vector<std::int32_t>* last) const;
  void FindLastOutputs();
  template <typename Tensor>
  absl::Status RunOn(absl::Span<Tensor> inputs, absl::Span<const std::int64_t> symbols,
                     absl::Span<at::Tensor> outputs) const;
  absl::Status Execute(Frame& frame, absl::Span<const std::int64_t> symbols, absl::Span<at::Tensor> outputs) const;
  void RunStep(const PlanStep& step, Frame& frame) const;
  void RunView(const PlanStep& step, Frame& frame) const;
  static const c10::OperatorHandle& HandleOf(const PlanStep& step, Frame& frame);
  void CallOperator(const PlanStep& step, Frame& frame) const;
  void Push(const PlanStep& step, Frame& frame) const;
  void LayOut(std::int32_t value, Frame& frame) const;
  bool IsUncounted(ir::ValueId v) const;
  static void MakeWhole(c10::IValue& slot);
  void Pop(const PlanStep& step, Frame& frame) const;

  ir::Graph graph_;
  std::vector<PlanStep> steps_;
  std::int32_t first_write_ = kNoWrite;      // the first node that may write an input
  std::vector<std::int32_t> number_inputs_;  // inputs that are numbers
  std::vector<bool> output_last_use_;        // the output takes the slot's only reference
  bool warns_of_sizes_ = false;              // an operator may (unsaid_warnings.h)
  bool says_strides_ = true;                 // the graph's strides are those of what the operators give
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_ATEN_SEQUENCE_H_
