// array_memory: whether the tensor whose memory an array of numpy has is still what it was when the array was made.
// Invariant: such an array's MadeArray says of one tensor which value it was then; it calls nothing.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_ARRAY_MEMORY_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_ARRAY_MEMORY_H_

#include <memory>
#include <utility>

#include "symbolic/journals/made_array.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/tracing/later_writes.h"

namespace framefuse {

inline void NoteMemory(Tracked& array, BorrowedRef tensor) {
  array.memory_of = Ref::Create(tensor);
  MadeArray how;
  how.reads.emplace_back(Ref::Create(tensor), tracing::ValueNow(tensor));
  array.made = std::make_shared<const MadeArray>(std::move(how));
}

// The tensor is another by now: of another shape (t_, resize_), or of other memory (`x.data = y`).
inline bool HasLostItsTensor(const Tracked& array) {
  const Ref shape = Ref::Steal(PyObject_GetAttrString(array.representative, "shape"));
  return !shape || !tracing::IsStill(array.memory_of, array.made->reads.front().second, shape);
}

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_ARRAY_MEMORY_H_
