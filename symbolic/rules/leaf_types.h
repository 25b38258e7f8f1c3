// leaf_types: which objects are immutable leaves: their value is all there is to them.
// Invariant: types are known for ever; asking runs no code of the program's.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_LEAF_TYPES_H_
#define FRAMEFUSE_SYMBOLIC_RULES_LEAF_TYPES_H_

#include "frame_eval/ref.h"

namespace framefuse {

// The leaves that nearly all questions are about; LeafTypes has the others.
inline bool IsTextOrNumber(BorrowedRef object) {
  PyTypeObject* type = object.type();
  return type == &PyLong_Type || type == &PyUnicode_Type || type == &PyFloat_Type || type == &PyBool_Type;
}
bool IsOtherLeaf(BorrowedRef object);
// An immutable leaf: its value is all there is to it; guarded when consumed.
inline bool IsLeaf(BorrowedRef object) { return IsTextOrNumber(object) || IsOtherLeaf(object); }

bool IsFrozensetOfLeaves(BorrowedRef object);

// Registers further exact types whose instances are immutable leaves (torch.dtype, torch.device …).
void AddLeafType(PyTypeObject* type);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_LEAF_TYPES_H_
