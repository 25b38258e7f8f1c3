// Executable: one phase of a graph (forward or backward) made runnable, below autograd. What a backend
// supplies; backends/autograd makes a Plan out of one or two of them.
// Invariant: immutable and thread-safe. Called with autograd, ADInplaceOrView and autocast keys excluded. A
// functional graph's executable writes an input only where AllowOverwrites let it, and keeps no reference after Run.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_EXECUTABLE_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_EXECUTABLE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/graph/backend.h"

namespace framefuse {

// An output that is the new value of an input; no history is recorded for it.
struct Overwrite {
  std::int32_t input = 0;
  std::int32_t output = 0;
};

// The end of a run that was begun by RunToEnding, for the same sizes: it makes the outputs that run left undefined.
// The executable outlives it.
class Ending {
 public:
  virtual ~Ending() = default;
  // As often as asked, each time in fresh memory.
  virtual absl::Status Run(absl::Span<const at::Tensor> inputs, absl::Span<at::Tensor> outputs) const = 0;
};

class Executable {
 public:
  virtual ~Executable() = default;
  // `inputs`: the graph's inputs in order; numbers (ValueKind kInt …) as 0-dim CPU tensors. `outputs` has one
  // element for each of the graph's outputs; left undefined where the output has no value.
  virtual absl::Status Run(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                           absl::Span<at::Tensor> outputs) const = 0;
  // As Run; each input may be released after its last use.
  virtual absl::Status RunConsuming(absl::Span<at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                                    absl::Span<at::Tensor> outputs) const {
    return Run(inputs, symbols, outputs);
  }
  // As RunConsuming. Calls `made` for outputs of `order`, in that order, as soon as each is there and nothing that is
  // still to run reads it; `made` may take it. Of the others it says nothing; those it leaves are there at the end.
  virtual absl::Status RunTelling(absl::Span<at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                                  absl::Span<at::Tensor> outputs, absl::Span<const std::size_t> /*order*/,
                                  absl::FunctionRef<void(std::size_t output)> /*made*/) const {
    return RunConsuming(inputs, symbols, outputs);
  }
  // As Run, but may leave its end to `ending`, null otherwise. `apart`: by output, whether the ending may make it.
  virtual absl::Status RunToEnding(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                                   absl::Span<at::Tensor> outputs, const std::vector<bool>& /*apart*/,
                                   std::unique_ptr<Ending>* /*ending*/) const {
    return Run(inputs, symbols, outputs);
  }
  // Called at most once, before any Run. From then on Run may write such an output over the input's own memory; the
  // output is then the input itself, whose version the caller counts up.
  virtual void AllowOverwrites(absl::Span<const Overwrite> /*overwrites*/) {}
  // Some run writes inputs. Run then says of its failures whether they came before that (MarkInputsUntouched).
  virtual bool WritesInputs() const { return false; }
  virtual std::vector<PlanGroup> Explain() const = 0;
};

using ExecutableFactory =
    std::function<absl::StatusOr<std::unique_ptr<Executable>>(ir::Graph graph, const BackendOptions& options)>;

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_EXECUTABLE_H_
