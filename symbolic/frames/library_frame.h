// Whether a frame that nobody asked to compile is an installed library's that has nothing to do with tensors: its
// module knows nothing of torch, and its variables hold no tensor. Such a frame runs as Python, in one piece; what it
// calls is looked at for itself, so a callback of the user's is captured. Invariant: runs no Python.
#ifndef FRAMEFUSE_SYMBOLIC_FRAMES_LIBRARY_FRAME_H_
#define FRAMEFUSE_SYMBOLIC_FRAMES_LIBRARY_FRAME_H_

#include "frame_eval/versions/frame_ops.h"

namespace framefuse {

[[nodiscard]] bool IsOfLibraryWithoutTensors(frame_ops::Frame* frame);

// Whether it runs what torch generated from a text for itself (the methods of a dataclass).
[[nodiscard]] bool IsGeneratedByTorch(frame_ops::Frame* frame);

// Whether it is the forward of a module of torch's own (a Sequential) that the program distributes: what wraps it runs
// as Python, and this is what somebody asked to compile. The frame starts.
[[nodiscard]] bool IsOfDistributedModule(frame_ops::Frame* frame);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_FRAMES_LIBRARY_FRAME_H_
