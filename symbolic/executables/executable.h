// The two executables of an entry: a plan of a built-in backend, and the callable of an FX backend.
// Invariant: immutable and shared by entries whose graphs are equal.
#ifndef FRAMEFUSE_SYMBOLIC_EXECUTABLES_EXECUTABLE_H_
#define FRAMEFUSE_SYMBOLIC_EXECUTABLES_EXECUTABLE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "symbolic/entry/compiled_entry.h"
#include "symbolic/executables/fx_facts.h"
#include "symbolic/reconstruct/close.h"

namespace framefuse {

// Compiles with a built-in backend, which takes the graph. `backend` and `mode` are known names.
absl::StatusOr<std::shared_ptr<TensorWork>> CompilePlan(Closed& closed, const std::string& backend,
                                                        const std::string& mode);

// Hands the graph to an FX backend. After the attempt: it is user code, and may call whatever it likes. Null: it
// failed, and the Python error is set, or without one where the program has used up the stack.
std::shared_ptr<TensorWork> CompileFx(const FxGraph& graph, FxFacts facts, BorrowedRef fx_backend);

std::string GraphText(const tracing::TracedGraph& graph);
bool WritesInputs(const tracing::TracedGraph& graph);
// Whether it may be run behind draws of random numbers that the program made between its operators: no operator draws
// from the same generators, as one in Python could, and it does more than read the numbers.
bool MayDrawBefore(const tracing::TracedGraph& graph, std::size_t draws);
// Or does anything else that cannot be done in vain: it is seen, or may fail for good on a device.
bool ActsOutside(const tracing::TracedGraph& graph);
bool ActsBesidesWrites(const tracing::TracedGraph& graph);
// Whether it has operators that are run for what they do.
bool HasSideEffects(const tracing::TracedGraph& graph);
int NodeCountOf(const tracing::TracedGraph& graph);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EXECUTABLES_EXECUTABLE_H_
