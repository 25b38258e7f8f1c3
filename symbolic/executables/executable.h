// The two executables of an entry: a plan of a built-in backend, and the callable of an FX backend.
// Invariant: immutable and shared by entries whose graphs are equal.
#ifndef FRAMEFUSE_SYMBOLIC_EXECUTABLES_EXECUTABLE_H_
#define FRAMEFUSE_SYMBOLIC_EXECUTABLES_EXECUTABLE_H_

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/graph/dim.h"
#include "symbolic/entry/compiled_entry.h"
#include "symbolic/executables/fx_graph.h"
#include "symbolic/executables/fx_sizes.h"
#include "symbolic/executables/fx_writes.h"
#include "symbolic/reconstruct/close.h"

namespace framefuse {

// Compiles with a built-in backend, which takes the graph. `backend` and `mode` are known names.
absl::StatusOr<std::shared_ptr<TensorWork>> CompilePlan(Closed& closed, const std::string& backend,
                                                        const std::string& mode);

// Random number generators that a graph draws from: those of devices, and such as it was given.
struct DrawnFrom {
  std::vector<c10::Device> devices;
  std::vector<at::Generator> given;
};

// What the executable of an FX backend knows of the graph, with no fake in it.
struct FxFacts {
  struct Result {
    c10::ScalarType dtype = c10::ScalarType::Float;
    c10::Device device{c10::DeviceType::CPU};
    std::vector<ir::Dim> sizes;
  };
  std::vector<Result> results;
  std::shared_ptr<const FxSizes> sizes;
  std::vector<FxWrite> writes;
  DrawnFrom random;
};
FxFacts FactsOf(const FxGraph& graph, const Closed& closed, Capture& capture);
// Hands the graph to an FX backend. After the attempt: it is user code, and may call whatever it likes. Null: it
// failed, and the Python error is set, or without one where the program has used up the stack.
std::shared_ptr<TensorWork> CompileFx(const FxGraph& graph, FxFacts facts, BorrowedRef fx_backend);

std::string GraphText(const tracing::TracedGraph& graph);
bool WritesInputs(const tracing::TracedGraph& graph);
// Or does anything else that cannot be done in vain: it is seen, or may fail for good on a device.
bool ActsOutside(const tracing::TracedGraph& graph);
// Whether it has operators that are run for what they do.
bool HasSideEffects(const tracing::TracedGraph& graph);
int NodeCountOf(const tracing::TracedGraph& graph);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EXECUTABLES_EXECUTABLE_H_
