// What capture knows of torch.distributed.tensor, once a program has imported it: DTensors over fakes run through
// torch's own code (symbolic/tracing/sharded_tensors.h). Here is which of its functions do, what of its state is
// guarded, and which of its frames run in another way.
// Invariant: nothing here imports torch.distributed.tensor. All needs the GIL.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_SHARDED_VALUES_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_SHARDED_VALUES_H_

#include <optional>
#include <string>
#include <string_view>

#include "frame_eval/versions/frame_ops.h"
#include "guards/source.h"

namespace framefuse {

class ReadJournal;

// Before an attempt begins.
void PrepareForSharded();

bool IsMesh(BorrowedRef object);
// DTensor.from_local and its like.
bool IsShardingFunction(BorrowedRef callable);
// Torch's code for DTensors, and ours: backward functions are among it.
bool IsShardingCode(PyCodeObject* code);
// What torch's C++ calls where an operator gets DTensors.
bool IsShardingDispatch(PyCodeObject* code);
// Why no attempt may run the function; null: it may.
const char* RefusalOfShardingCode(PyCodeObject* code);
// Why no DTensor can be taken now; empty: it can. The guard says that there are no other reasons later.
std::string WhyNotSharded();
void GuardShardedState(ReadJournal& reads);
BorrowedRef ShardedDispatcher();  // where a program may put functions for operators
// An attribute that a DTensor from outside has in common with the one that stands for it.
bool IsSharedAttribute(std::string_view name);

// Guards what decides how operators work on a DTensor: its mesh and its placements. False: not all can be guarded.
bool GuardShardedSpec(ReadJournal& reads, BorrowedRef spec, SourceId source);

Ref NewEntrance();  // an object of framefuse._sharded.Entrance

BorrowedRef MakerOfSharded();  // called with a local tensor and a spec

// nullopt: the frame runs as any other.
std::optional<PyObject*> RunShardingFrame(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_SHARDED_VALUES_H_
