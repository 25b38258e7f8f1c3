// A graph in text form as a plan that Python calls with tensors: what torch.compile's backend runs.
// Invariant: functions with a Python result return null with a Python error set, torch's own where a kernel raised it.
#ifndef FRAMEFUSE_PYTHON_GRAPH_PLAN_H_
#define FRAMEFUSE_PYTHON_GRAPH_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/graph/backend.h"
#include "backends/package/loaded_package.h"
#include "frame_eval/ref.h"

namespace framefuse {

// `backend`: a built-in one. `verify`: sizes, dtypes and strides are computed once more. Not of what passes made: they
// choose strides.
absl::StatusOr<std::shared_ptr<Plan>> CompileGraphText(const std::string& text, const std::string& backend,
                                                       const BackendOptions& options, bool verify);

// The tensors of a list, and a list of tensors, None where one is undefined.
bool TakeTensors(BorrowedRef list, std::vector<at::Tensor>* tensors);
Ref ListOf(const std::vector<at::Tensor>& tensors);

// `inputs`: list of the tensors; `symbols`: values of the graph's. Returns the list of the user outputs, None where one
// is undefined.
Ref RunPlan(const Plan& plan, BorrowedRef inputs, std::vector<std::int64_t> symbols);

// The same of a package's arguments and results. ValueError: those are none that it serves.
Ref RunPackage(const LoadedPackage& package, BorrowedRef arguments);

}  // namespace framefuse

#endif  // FRAMEFUSE_PYTHON_GRAPH_PLAN_H_
