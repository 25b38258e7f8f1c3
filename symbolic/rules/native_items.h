// native_items: the items of lists and dicts as their C storage has them, whatever their classes put in place of the
// methods of their native bases.
// Invariant: no method of a Python class runs here.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_NATIVE_ITEMS_H_
#define FRAMEFUSE_SYMBOLIC_RULES_NATIVE_ITEMS_H_

#include "frame_eval/ref.h"

namespace framefuse {

// The items of a list, deque or set, as a new list.
Ref NativeItems(BorrowedRef sequence);
// The (key, value) pairs of a dict in its order, that of an OrderedDict its own, as a new list.
Ref NativePairs(BorrowedRef dict);
BorrowedRef RawFactoryOf(BorrowedRef defaultdict);  // null: it was given none
// A null value deletes the key. False: a Python error is set.
bool SetNativeItem(BorrowedRef dict, BorrowedRef key, BorrowedRef value_or_null);
// A dict or OrderedDict of the same items; of a list or deque a list; of a set one with the same table.
Ref PlainCopy(BorrowedRef container);

// Without any item or attribute, and without a call of what its class defines to make one.
Ref EmptyOfClass(PyTypeObject* type);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_NATIVE_ITEMS_H_
