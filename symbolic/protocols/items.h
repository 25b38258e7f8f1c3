// Items: subscripts and len(), of containers, tensors, classes, and objects with special methods.
// Invariant: one item of a tracked container is read without a look at the others where that goes.
#ifndef FRAMEFUSE_SYMBOLIC_PROTOCOLS_ITEMS_H_
#define FRAMEFUSE_SYMBOLIC_PROTOCOLS_ITEMS_H_

#include "symbolic/evaluator/protocols.h"
#include "symbolic/journals/array_functions.h"
#include "symbolic/journals/size_operations.h"
#include "symbolic/protocols/symbolic_keys.h"

namespace framefuse {

class BackwardPhase;
class BreakController;
class CallEvaluator;
class FxJournal;
class Journals;
class NativeArguments;
class NativeBoundary;
class NativeProtocols;
class ObjectContents;
class ObjectTable;
class ReadJournal;
class WriteJournal;
struct Tracked;

class Items {
 public:
  Items(Journals& journals, NativeProtocols& native, Protocols& meaning, CallEvaluator& calls);

  Value GetLength(Activation& act, ValueView v);
  Value GetItem(Activation& act, ValueView container, ValueView key);
  [[nodiscard]] bool SetItem(Activation& act, ValueView container, ValueView key, ValueView value);
  [[nodiscard]] bool DeleteItem(Activation& act, ValueView container, ValueView key);

 private:
  bool IsFromOutside(BorrowedRef cls) const;
  bool IsClassOrClasses(BorrowedRef key) const;
  bool IsSameLater(BorrowedRef key) const;
  [[nodiscard]] bool MoveItems(Tracked& tuple);  // false: broke
  [[nodiscard]] bool KeepMade();                 // the same
  [[nodiscard]] bool WriteKept(Tracked* t, BorrowedRef contents, ValueView key, ValueView value);
  Value ClassItem(Activation& act, ValueView cls, ValueView key);

  FxJournal& fx_;
  BreakController& breaks_;
  BackwardPhase& backward_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  ObjectContents& contents_;
  NativeArguments& arguments_;
  NativeProtocols& native_;
  Protocols& meaning_;
  CallEvaluator& calls_;
  SizeOperations sizes_;
  SymbolicKeys keys_;
  ArrayFunctions arrays_;
  tracing::Tracer& tracer_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_PROTOCOLS_ITEMS_H_
