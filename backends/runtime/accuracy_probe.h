// AccuracyProbe: is shown each piece of a graph around its run, to compare it with ATen (`framefuse.doctor
// --accuracy`). The Python package registers it before anything is compiled. Invariant: without one, a plan holds
// nothing for it.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_ACCURACY_PROBE_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_ACCURACY_PROBE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "backends/graph/graph.h"

namespace framefuse {

// A piece of a graph: a graph of its own, whose outputs are what the piece computes.
struct ProbedPiece {
  std::string text, description;
  bool whole = false;  // all that a backend was given, before its own rewrites
};

// Called with what the piece computed, or why it did not.
using EndOfProbe = std::function<void(const absl::Status&, absl::Span<const at::Tensor>)>;
// Called before a piece runs; empty: nobody wants to see this run.
using AccuracyProbe = std::function<EndOfProbe(const ProbedPiece&, absl::Span<const at::Tensor> inputs,
                                               absl::Span<const std::int64_t> symbols)>;

const AccuracyProbe& TheAccuracyProbe();  // empty: none was registered
void SetAccuracyProbe(AccuracyProbe probe);

// The nodes between `reads` and `results` as a graph for itself. What else they read of `graph` is added to `reads`.
std::string PieceText(const ir::Graph& graph, std::vector<ir::ValueId>* reads, const std::vector<ir::ValueId>& results);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_ACCURACY_PROBE_H_
