// Numpy's numbers (np.float32(2), what np.sqrt(64) returns) as leaves of a capture: immutable values, computed while
// it is made. Numpy warns of a division by zero or an overflow each time; while a capture has such numbers, numpy
// raises instead, and the graph breaks there.
// Invariant: numpy's settings are the program's again when the NumpyErrors ends. Without numpy all of this is empty.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_NUMPY_SCALARS_H_
#define FRAMEFUSE_SYMBOLIC_RULES_NUMPY_SCALARS_H_

#include "frame_eval/ref.h"
#include "symbolic/rules/leaf_types.h"

namespace framefuse {

void RegisterNumpyLeafTypes();
bool IsNumpyNumberType(PyTypeObject* type);
// Python's and numpy's numbers, None, types, and tuples and lists of such.
bool IsNumberForNumpy(BorrowedRef object);

// One is here, or in what C code reads to make the object's text.
bool MayHoldNumpyNumber(BorrowedRef object);
inline bool HoldsNumpyNumber(BorrowedRef object) { return !IsTextOrNumber(object) && MayHoldNumpyNumber(object); }

class NumpyErrors {
 public:
  NumpyErrors() = default;
  ~NumpyErrors();
  NumpyErrors(const NumpyErrors&) = delete;
  NumpyErrors& operator=(const NumpyErrors&) = delete;

  void Raise();         // from now on
  bool Raised() const;  // the pending exception is one

 private:
  Ref before_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_NUMPY_SCALARS_H_
