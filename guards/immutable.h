// Immutable: exact builtin values that can be hashed and compared without running Python code.
// Two values are the same only if their types are and their bits are: True, 1 and 1.0 differ, so do 0.0 and -0.0;
// a NaN is the same as a NaN with equal bits.
// Invariant: nothing here calls a method of a user's type.
#ifndef FRAMEFUSE_GUARDS_IMMUTABLE_H_
#define FRAMEFUSE_GUARDS_IMMUTABLE_H_

#include <cstddef>

#include "frame_eval/ref.h"

namespace framefuse {

// None, Ellipsis, NotImplemented, bool, int, float, complex, str, bytes, range, slice, numbers of added types,
// frozenset, tuple and tuple types without attributes of their own (torch.Size, named tuples), of such values.
bool IsImmutable(BorrowedRef value);

// A C type whose instances are a number, given by their buffer (numpy.float32). For ever; before the first guard.
void AddNumberType(PyTypeObject* type);

// A type whose instances never change and are compared by C code of its own; they may hash as they like
// (torch.distributed.tensor.Shard). For ever.
void AddComparedType(PyTypeObject* type);

// Whether the value is of an immutable exact type with C-only hash and equality, as look-ups in dicts use them
// (the same set as IsImmutable, less slices, which do not hash before 3.12, and tuples that compare in a way of their
// own).
bool IsImmutableKey(BorrowedRef value);

// Both may be anything; values that are not immutable are the same only if they are one object.
bool SameImmutable(BorrowedRef a, BorrowedRef b);

// Equal for values that are the same.
std::size_t HashImmutable(BorrowedRef value);

// Python's == of two immutable keys (1 == 1.0 == True), which is how a dict finds them.
bool EqualAsKeys(BorrowedRef a, BorrowedRef b);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_IMMUTABLE_H_
