// Step: one part of a FusedExecutable, run in order over slots (one tensor a graph value).
#ifndef FRAMEFUSE_BACKENDS_FUSION_STEP_H_
#define FRAMEFUSE_BACKENDS_FUSION_STEP_H_

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/fusion/lower.h"
#include "backends/runtime/executable.h"
#include "common/indexed_vector.h"

namespace framefuse::fusion {

// What a call gives its steps.
struct CallState {
  IndexedVector<ir::ValueId, at::Tensor>& slots;
  absl::Span<const std::int64_t> symbols;
  const std::vector<std::int64_t>& exprs;           // value of each size expression
  bool fresh = false;                               // no result may be written over what a slot has
  const std::vector<bool>* kept = nullptr;          // by value: those that stay as they are; null: none
  const std::vector<ir::ValueId>* dying = nullptr;  // what only this step still reads, if it may take that; null: none

  // Whether a result may be written over it.
  bool MayTake(ir::ValueId v) const { return !fresh && !IsKept(v); }
  // For its last use in a step: the slot no longer holds it, so it is freed there, not with the step.
  at::Tensor Take(ir::ValueId v) const {
    at::Tensor& slot = slots[v];
    const bool dies = dying != nullptr && !IsKept(v) && std::find(dying->begin(), dying->end(), v) != dying->end();
    return dies ? std::move(slot) : slot;
  }
  bool IsKept(ir::ValueId v) const { return kept != nullptr && (*kept)[static_cast<std::size_t>(v)]; }

  std::int64_t Value(const ir::Dim& d) const {
    return d.is_constant() ? d.constant() : exprs[static_cast<std::size_t>(d.expr)];
  }
};

class Step {
 public:
  virtual ~Step() = default;
  virtual absl::Status Run(CallState& call) const = 0;
  virtual std::vector<ir::ValueId> Reads() const = 0;
  // What kernels compute for others; empty for other steps.
  virtual std::vector<ir::ValueId> Results() const { return {}; }
  // What a profiler calls kernels; empty for steps whose operators tell a profiler of themselves.
  virtual std::string RangeName() const { return ""; }
  virtual std::vector<PlanGroup> Explain() const = 0;
  // Nothing but a lack of memory makes it fail.
  virtual bool IsKernel() const { return false; }
  // Nodes that it runs as operators, in that order, or may, for kernels that check an index; empty: none, or not known.
  virtual absl::Span<const ir::NodeIndex> Operators() const { return {}; }
  // From now on writes `result` over the memory of `input`, where a call gives it in the recorded layout. False: the
  // step does not, because it reads `input` at other points than it writes, or after that.
  virtual bool WriteOver(ir::ValueId /*result*/, ir::ValueId /*input*/) { return false; }
};

// Nodes that run as ATen operators; `outputs` are the values that others need.
absl::StatusOr<std::unique_ptr<Step>> MakeAtenStep(const ir::Graph& graph, const std::vector<ir::NodeIndex>& nodes,
                                                   const std::vector<ir::ValueId>& outputs);

// One lowered group on the CPU; `graph` outlives the step. `fallback`, the same as ATen operators, is for groups with
// index checks: it says what eager says of a wrong index. Else it may be null.
absl::StatusOr<std::unique_ptr<Step>> MakeCpuStep(const ir::Graph& graph, const Group& group, LoweredGroup lowered,
                                                  std::unique_ptr<Step> fallback);

// One lowered group on a CUDA device, to be compiled by CompileCudaSteps. `fallback` does the same as ATen operators.
absl::StatusOr<std::unique_ptr<Step>> MakeCudaStep(const ir::Graph& graph, const Group& group, LoweredGroup lowered,
                                                   std::unique_ptr<Step> fallback);
// Joins neighbouring steps that run one kernel over independent tensors, flat ones or ones of one shape, then compiles
// all CUDA steps as one program.
void CompileCudaSteps(std::vector<std::unique_ptr<Step>>* steps);

// Joins neighbouring steps that run one flat kernel over independent tensors on the CPU into one step.
void MergeHorizontally(std::vector<std::unique_ptr<Step>>* steps);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_STEP_H_
