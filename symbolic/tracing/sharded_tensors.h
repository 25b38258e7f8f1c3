// DTensors in a capture. One is torch's own object around a fake of the local tensor: autograd sees the DTensor, and
// what comes out below autograd is given to torch's own dispatch of DTensors, whose operators and collectives on local
// tensors are recorded (docs/architecture/sharded_tensors.md).
// Invariant: each DTensor that an operator gets is one over fakes of the recording, and is written by none.
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
// What of a DTensor can change without an operator that is recorded: compared, never read.
std::vector<std::uintptr_t> StateOfSharded(BorrowedRef sharded);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_SHARDED_TENSORS_H_
