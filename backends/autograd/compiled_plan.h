// CompileWithAutograd: a captured graph and a way to make executables → a Plan with eager's autograd behaviour.
// The plan runs the forward below autograd, gives outputs their grad_fn, writes mutated inputs back through
// autograd, and rebuilds outputs that are inputs or views.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_COMPILED_PLAN_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_COMPILED_PLAN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "backends/passes/pass.h"
#include "backends/runtime/executable.h"

namespace framefuse {

// `backend` is its name, for Explain; `own` are its passes over the joint graph, which run after the standard ones.
absl::StatusOr<std::shared_ptr<Plan>> CompileWithAutograd(std::string backend, ir::Graph graph,
                                                          const ExecutableFactory& factory,
                                                          const BackendOptions& options,
                                                          absl::Span<const Pass> own = {});

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_COMPILED_PLAN_H_
