// number_indices: subscripts of tensors by symbolic integers. Torch's subscript takes an integer for a plain one; what
// it does with it is select(), which takes a symbolic one.
#ifndef FRAMEFUSE_SYMBOLIC_PROTOCOLS_NUMBER_INDICES_H_
#define FRAMEFUSE_SYMBOLIC_PROTOCOLS_NUMBER_INDICES_H_

#include "frame_eval/ref.h"

namespace framefuse {

class NativeBoundary;
namespace tracing {
class Numbers;
}

struct NumberIndex {
  Ref tensor;  // with the symbolic integers selected; null: the subscript is left to torch, or select() failed
  Ref rest;    // the subscript without them, as torch takes it; an ellipsis: nothing is left of it
  bool selects_all() const { return tensor && rest.get() == Py_Ellipsis; }
};

// A symbolic integer alone that no selection stands for is looked at.
bool CanSelect(const tracing::Numbers& numbers, BorrowedRef container, BorrowedRef key);
// Of what is no tensor too: it is left as it is.
NumberIndex SelectNumbers(const tracing::Numbers& numbers, NativeBoundary& boundary, BorrowedRef container,
                          BorrowedRef key);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_PROTOCOLS_NUMBER_INDICES_H_
