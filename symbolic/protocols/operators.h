// Operators: unary, binary and in-place operators, and comparisons, of representatives by CPython's own code.
// Invariant: both operands are prepared for C code before, and one of a tensor stands in the FX journal.
#ifndef FRAMEFUSE_SYMBOLIC_PROTOCOLS_OPERATORS_H_
#define FRAMEFUSE_SYMBOLIC_PROTOCOLS_OPERATORS_H_

#include "symbolic/evaluator/protocols.h"
#include "symbolic/journals/array_functions.h"
#include "symbolic/journals/size_operations.h"

namespace framefuse {

class BreakController;
class FxJournal;
class Journals;
class NativeArguments;
class NativeBoundary;
class NativeProtocols;
class ObjectTable;
class ReadJournal;
class WriteJournal;

class Operators {
 public:
  Operators(Journals& journals, NativeProtocols& native, Protocols& meaning);

  Value Unary(Activation& act, UnaryOp op, ValueView v);
  Value Binary(Activation& act, int nb_op, ValueView left, ValueView right);
  Value Compare(Activation& act, int py_op, ValueView left, ValueView right);

 private:
  FxJournal& fx_;
  BreakController& breaks_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  NativeArguments& arguments_;
  NativeProtocols& native_;
  Protocols& meaning_;
  SizeOperations sizes_;
  ArrayFunctions arrays_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_PROTOCOLS_OPERATORS_H_
