// object_members: fields of C structs that hold an object and that descriptors show as they are: __slots__, and what
// the context of a torch.autograd.Function keeps for torch.
// Invariant: to read or write such a field runs no Python, but for the end of what was in it.
#ifndef FRAMEFUSE_GUARDS_LEAF_OBJECT_MEMBERS_H_
#define FRAMEFUSE_GUARDS_LEAF_OBJECT_MEMBERS_H_

#include <optional>

#include "frame_eval/ref.h"

namespace framefuse {

struct ObjectMember {
  Py_ssize_t offset = 0;
  bool none_if_empty = false;  // else what is empty raises AttributeError
};

// Nothing: the descriptor is another one.
std::optional<ObjectMember> ObjectMemberOf(BorrowedRef descriptor);

// Whether it is a switch of such a context that takes True and False, and that nobody reads (materialize_grads).
bool IsSwitchOfFunction(BorrowedRef descriptor);

// Of an instance of such a Function, as `ctx` is; torch makes no others with a Python class.
bool IsAutogradContextType(PyTypeObject* native_base);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_LEAF_OBJECT_MEMBERS_H_
