// Keys of dicts and elements of sets: ObjectTable::AdoptElement, and what others ask of them.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_ELEMENTS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_ELEMENTS_H_

#include "frame_eval/ref.h"

namespace framefuse {

// Of a Python class without __eq__ and __hash__ of its own: it is equal to itself only.
bool IsKnownByAddress(BorrowedRef object);

// Equal to itself only, by its address, as classes, functions, modules and most objects are: as a key it is found again
// whatever stands beside it. A tensor is not: the fake that stands for it has another address.
bool IsFoundByItself(BorrowedRef object);
// A key that is looked for without a look at the others: a leaf, whose value a guard holds, or a class, whose identity.
bool IsKeyOfItsOwn(BorrowedRef object);

// A look-up may run it on the very objects: captured code, where it looks into a shadow.
bool HasEqualityOfItsOwn(PyTypeObject* type);
// Whether a dict or set has such a key, other than a tensor, which hashes by its address: to fill another one with it
// would run code.
bool HoldsKeysThatCompare(BorrowedRef container);
// The callback of the standard library's weak containers, which takes out what has ended.
bool IsOfWeakContainer(BorrowedRef callback);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_ELEMENTS_H_
