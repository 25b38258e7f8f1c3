// What a capture remembers of single reads, for the next read of the same and for guards that are made at the end.
// Invariant: borrowed objects are held by the program, which changes nothing for the whole attempt. Lives in Capture.
#ifndef FRAMEFUSE_SYMBOLIC_CAPTURE_REMEMBERED_H_
#define FRAMEFUSE_SYMBOLIC_CAPTURE_REMEMBERED_H_

#include "frame_eval/ref.h"
#include "guards/source.h"

namespace framefuse {

// Found empty, and not tracked then.
struct TestedDict {
  SourceId source;
  PyObject* original;  // held by the program for the whole attempt, which changes nothing
};

// The __dict__ that was read of an object made here.
struct FreshDict {
  Ref dict;
  Ref owner;
};

// A global, by what it was at the first read.
struct GlobalRead {
  BorrowedRef object;
  SourceId source = kNoSource;
  Ref leaf;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CAPTURE_REMEMBERED_H_
