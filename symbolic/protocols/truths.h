// Truths: questions whose answer is yes or no: truth, identity, membership.
// Invariant: an answer has a guard on no more than what it says: a container's length, a leaf's type against None.
#ifndef FRAMEFUSE_SYMBOLIC_PROTOCOLS_TRUTHS_H_
#define FRAMEFUSE_SYMBOLIC_PROTOCOLS_TRUTHS_H_

#include <optional>
#include "symbolic/evaluator/protocols.h"
#include "symbolic/journals/size_operations.h"
#include "symbolic/protocols/symbolic_keys.h"

namespace framefuse {

class BackwardPhase;
class ExpectedTruths;
class BreakController;
class Journals;
class NativeArguments;
class NativeBoundary;
class NativeProtocols;
class ObjectContents;
class ObjectTable;
class ReadJournal;
namespace tracing {
class Tracer;
}

class Truths {
 public:
  Truths(Journals& journals, NativeProtocols& native);

  Truth IsTrue(Activation& act, ValueView v);
  std::optional<bool> TruthOfAttr(Activation&, ValueView owner, BorrowedRef name);
  Truth Is(Activation&, ValueView left, ValueView right);
  Truth IsNone(Activation& act, ValueView v);
  Truth Contains(Activation& act, ValueView item, ValueView container);

 private:
  Ref PlainNumber(BorrowedRef object);

  tracing::Tracer& tracer_;
  BreakController& breaks_;
  BackwardPhase& backward_;
  ExpectedTruths& expected_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  ObjectContents& contents_;
  NativeArguments& arguments_;
  NativeProtocols& native_;
  SizeOperations sizes_;
  SymbolicKeys keys_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_PROTOCOLS_TRUTHS_H_
