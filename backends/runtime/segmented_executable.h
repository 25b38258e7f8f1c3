// SegmentedExecutable: a graph that computes sizes of its own values (Output: kUnbacked), made runnable as segments
// that run one after another. Behind each the symbols that it defines become known, and what the recording relied on
// about them is checked (ir::DeferredFacts). Nodes stay in their order: what the program checked before it went on has
// been checked here, too, when the next operator runs. Invariant: writes no input; its outputs that define numbers are
// on the CPU.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_SEGMENTED_EXECUTABLE_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_SEGMENTED_EXECUTABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "backends/runtime/executable.h"

namespace framefuse {

class SegmentedExecutable final : public Executable {
 public:
  // Unimplemented: the graph is not functional.
  static absl::StatusOr<std::unique_ptr<Executable>> Create(const ir::Graph& graph, const ExecutableFactory& factory,
                                                            const BackendOptions& options);

  absl::Status Run(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                   absl::Span<at::Tensor> outputs) const override;
  std::vector<PlanGroup> Explain() const override;

 private:
  struct Definition {
    ir::SymbolIndex symbol = -1;
    std::int32_t dim = 0;  // as in ir::Output
    ir::ValueId value = ir::kNoValue;
  };
  struct Segment {
    std::unique_ptr<Executable> executable;
    std::vector<ir::ValueId> inputs, outputs;
    std::vector<Definition> defines;
    std::vector<std::size_t> facts;  // that are known behind it
    std::vector<ir::ValueId> dead;   // behind it
    ir::Graph guessed;               // its nodes whose metadata was guessed; without nodes: none
  };
  using Slots = std::vector<at::Tensor>;

  explicit SegmentedExecutable(const ir::Graph& graph);
  absl::Status Compile(const ExecutableFactory& factory, const BackendOptions& options);
  absl::Status CompileSegment(const std::vector<const ir::Node*>& nodes, const ExecutableFactory& factory,
                              const BackendOptions& options, Segment* segment) const;
  void PlanFacts();
  void PlanLives();
  absl::Status Define(const Segment& segment, Slots& slots, std::vector<std::int64_t>& symbols) const;
  absl::Status CheckSizes(const Segment& segment, absl::Span<const std::int64_t> symbols) const;

  ir::Graph graph_;
  std::vector<Segment> segments_;  // the first runs nothing: it defines what stands in inputs
  mutable absl::Mutex mutex_;
  mutable absl::flat_hash_set<std::vector<std::int64_t>> checked_;  // sizes for which guesses are right
};

// Symbols that an output of this kind defines, read out of it.
std::int64_t UnbackedValue(const at::Tensor& output, std::int32_t dim, ir::NumberType type);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_SEGMENTED_EXECUTABLE_H_
