// ArrayCalls: from arrays of numpy to tensors over their memory, and back.
// Invariant: captured code reads no array that has the memory of a tensor that was made here, for nothing is in it yet.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_ARRAY_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_ARRAY_CALLS_H_

#include <optional>

#include "symbolic/evaluator/value.h"

namespace framefuse {

struct Activation;
class BreakController;
class Journals;
class NativeArguments;
class NativeCalls;
class ObjectTable;
class ReadJournal;

class ArrayCalls {
 public:
  ArrayCalls(Journals& journals, NativeCalls& natives);

  // torch.from_numpy. An array from outside is an input of the graph; one that was made here holds what guards decide.
  Value TensorOf(Activation& act, ValueView array);
  // tensor.numpy(). Nothing: it is one that the call itself has to look at.
  std::optional<Value> ArrayOf(BorrowedRef tensor);

 private:
  Value TensorOfNew(BorrowedRef array);
  Value TensorOfMade(Activation& act, BorrowedRef array);

  BreakController& breaks_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  NativeArguments& arguments_;
  NativeCalls& natives_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_ARRAY_CALLS_H_
