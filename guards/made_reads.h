// Reads whose value is made for the reader, who holds it: nothing else may.
#ifndef FRAMEFUSE_GUARDS_MADE_READS_H_
#define FRAMEFUSE_GUARDS_MADE_READS_H_

#include "frame_eval/ref.h"
#include "guards/source.h"

namespace framefuse {

// Null, and no error: absent, or `kind` is another one. Runs no Python.
Ref MakeRead(SourceKind kind, BorrowedRef base);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_MADE_READS_H_
