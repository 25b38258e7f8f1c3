// The two executables of an entry: a plan of a built-in backend, and the callable of an FX backend.
// Invariant: immutable and shared by entries whose graphs are equal.
#ifndef FRAMEFUSE_SYMBOLIC_CAPTURE_EXECUTABLE_H_
#define FRAMEFUSE_SYMBOLIC_CAPTURE_EXECUTABLE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "symbolic/capture/close.h"
#include "symbolic/capture/compiled_entry.h"

namespace framefuse {

// Compiles with a built-in backend, which takes the graph. `backend` and `mode` are known names.
absl::StatusOr<std::shared_ptr<TensorWork>> CompilePlan(Closed& closed, const std::string& backend,
                                                        const std::string& mode);
// Hands the torch-level journal to an FX backend; false Python errors come back as a status with the error set.
absl::StatusOr<std::shared_ptr<TensorWork>> CompileFx(Capture& capture, const Closed& closed, BorrowedRef fx_backend);

std::string GraphText(const tracing::TracedGraph& graph);
bool WritesInputs(const tracing::TracedGraph& graph);
int NodeCountOf(const tracing::TracedGraph& graph);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CAPTURE_EXECUTABLE_H_
