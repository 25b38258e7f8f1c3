// DTensors in a capture. One is torch's own object around a fake of the local tensor. Autograd sees the DTensor. Below
// autograd comes torch's own dispatch of DTensors, and below that the recorder: it gets the operators and collectives
// on local tensors (docs/architecture/sharded_tensors.md).
// All needs the GIL.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_SHARDED_TENSORS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_SHARDED_TENSORS_H_

#include <cstdint>
#include <vector>

#include "frame_eval/ref.h"

namespace framefuse::tracing {

// torch's class, once it is imported.
void SetShardedType(PyTypeObject* type);
bool IsSharded(BorrowedRef object);
// Whether it is a DTensor over a fake.
bool IsShardedFake(BorrowedRef object);
// The local tensor; null: it has none.
Ref LocalOf(BorrowedRef sharded);
// Whether a DTensor made anew of its local tensor and its spec is as good: it has no history, and is no view of
// another.
bool IsWithoutHistory(BorrowedRef sharded);
// What of a DTensor can change without an operator that is recorded: compared, never read.
std::vector<std::uintptr_t> StateOfSharded(BorrowedRef sharded);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_SHARDED_TENSORS_H_
