// Reads whose value is made for the reader, who holds it: nothing else may.
#ifndef FRAMEFUSE_GUARDS_MADE_READS_H_
#define FRAMEFUSE_GUARDS_MADE_READS_H_

#include "frame_eval/ref.h"
#include "guards/source.h"

namespace framefuse {

// Null, and no error: absent, or `kind` is another one. Runs no Python. `index`: the source's.
Ref MakeRead(SourceKind kind, BorrowedRef base, std::int32_t index);

// threading.local, or a class of it that looks attributes up in no way of its own, and whose instances begin in a
// thread without any code's running.
bool IsThreadLocal(PyTypeObject* type);
// What an object of such a class holds in the calling thread. Null, and no error: the object is none.
Ref ThreadDict(BorrowedRef object);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_MADE_READS_H_
