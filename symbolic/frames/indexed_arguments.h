// A frame's *args of which its code takes single items and the number, and never the tuple as a whole.
#ifndef FRAMEFUSE_SYMBOLIC_FRAMES_INDEXED_ARGUMENTS_H_
#define FRAMEFUSE_SYMBOLIC_FRAMES_INDEXED_ARGUMENTS_H_

#include "frame_eval/versions/frame_ops.h"

namespace framefuse {

// Whether `slot` of the frame has such *args.
bool IsOnlyIndexed(frame_ops::Frame* frame, int slot);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_FRAMES_INDEXED_ARGUMENTS_H_
