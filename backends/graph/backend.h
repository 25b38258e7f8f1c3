// Backend, Plan and their registry: what capture and the tests know of backends.
// Invariant: a Plan is immutable and thread-safe once compiled. Run takes the graph's inputs that are not
// tangents, in order, and returns the user outputs in order with autograd attached and mutated inputs
// written back; backward is run by torch's engine later, through the outputs' grad_fn.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_BACKEND_H_
#define FRAMEFUSE_BACKENDS_GRAPH_BACKEND_H_

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/graph/graph.h"

namespace framefuse {

struct BackendOptions {
  std::string mode = "default";  // default, reduce-overhead, max-autotune
  bool save_all = false;         // partition: keep every value that backward uses, recompute nothing
  bool results_go_on = false;    // behind a graph break the function goes on with them, and may write them
  bool keeps_text = false;       // the graphs' texts, for PlanExplanation
  // Outputs from this one on only the plan's own backward reads. -1: none.
  std::int32_t first_kept_output = -1;
  // Inputs from this one on are a backward pass's tangents: each call has others. -1: none.
  std::int32_t first_tangent = -1;
};

// One phase of compiling or one group of a plan, for explain().
struct PhaseTime {
  std::string name;
  double milliseconds = 0;
};
struct PlanGroup {
  std::string description;  // "pointwise: add, gelu (model.py:12)", or the op that runs as ATen
  std::string code;         // text of the kernel, empty for ATen ops
  std::int64_t nodes = 0;
  std::int64_t bytes = 0;  // read and written at the hints, 0: unknown
};
struct PlanExplanation {
  std::string backend;
  std::vector<PhaseTime> phases;
  std::vector<PlanGroup> forward;
  std::vector<PlanGroup> backward;
  std::int64_t saved_bytes = 0;  // for backward, at the hints, parameters and inputs not counted
  std::string forward_graph;     // text
  std::string backward_graph;
};

class Plan {
 public:
  virtual ~Plan() = default;
  // `symbols`: value of each of the graph's symbols; those of unbacked ones are set here. A torch error (of a kernel, a
  // shape check …) comes back as a status that carries the original C++ exception, see RethrowTorchError.
  virtual absl::StatusOr<std::vector<at::Tensor>> Run(absl::Span<const at::Tensor> inputs,
                                                      absl::Span<std::int64_t> symbols) const = 0;
  virtual PlanExplanation Explain() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual absl::StatusOr<std::shared_ptr<Plan>> Compile(ir::Graph graph, const BackendOptions& options) = 0;
};

// Registry. Names: "aten", "fuse". Thread-safe. Find returns nullptr for an unknown name; backends are
// made at their first use and live for ever.
using BackendFactory = std::function<std::unique_ptr<Backend>()>;
bool RegisterBackend(std::string name, BackendFactory factory);  // false: the name is taken
Backend* FindBackend(std::string_view name);
std::vector<std::string> ListBackends();

// Status with the exception in flight (call inside a catch block): message with the user's line first, the
// exception itself in the payload.
absl::Status TorchErrorStatus(std::exception_ptr exception, std::string_view where);
// The exception that a status carries, or null. Rethrow it where exceptions become Python errors, so that
// the user sees eager's exception type.
std::exception_ptr TorchErrorOf(const absl::Status& status);
// A plan's failure before it wrote any input: the caller may do the work another way.
void MarkInputsUntouched(absl::Status& status);
bool AreInputsUntouched(const absl::Status& status);
// A hook for saved tensors raised, and the program's caller gets that: the graph has run.
void MarkRaisedByHook(absl::Status& status);
bool IsRaisedByHook(const absl::Status& status);
// A deferred fact of the graph (ir::DeferredFacts) does not hold in this call; no input was written.
absl::Status DeferredFailure(std::size_t fact);
std::optional<std::size_t> DeferredFailureOf(const absl::Status& status);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_GRAPH_BACKEND_H_
