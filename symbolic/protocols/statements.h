// Statements: with, match and import, and the evaluator's small intrinsics.
// Invariant: only modules that are there already are imported; torch's own code may import parts of torch.
#ifndef FRAMEFUSE_SYMBOLIC_PROTOCOLS_STATEMENTS_H_
#define FRAMEFUSE_SYMBOLIC_PROTOCOLS_STATEMENTS_H_

#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class AttributeReads;
class BreakController;
class CallEvaluator;
class Journals;
class NativeArguments;
class NativeBoundary;
class NativeProtocols;
class ObjectTable;
class ReadJournal;

class Statements {
 public:
  Statements(Journals& journals, NativeProtocols& native, Protocols& meaning, AttributeReads& attributes,
             CallEvaluator& calls);

  [[nodiscard]] bool BeforeWith(Activation& act, ValueView manager, Value* exit, Value* entered);
  Value LoadSpecial(Activation& act, ValueView owner, frame_ops::SpecialMethod which);
  Value CallExit(Activation& act, ValueView exit, ValueView self, BorrowedRef type, BorrowedRef exception,
                 BorrowedRef traceback);
  Truth MatchMapping(Activation& act, ValueView v);
  Truth MatchSequence(Activation& act, ValueView v);
  Value MatchKeys(Activation& act, ValueView subject, ValueView keys);
  Value MatchClass(Activation& act, ValueView subject, ValueView cls, int positional, ValueView names);
  Value ImportName(Activation& act, BorrowedRef name, ValueView fromlist, ValueView level);
  Value ImportFrom(Activation& act, ValueView module, BorrowedRef name);
  [[nodiscard]] bool ImportStar(Activation& act, ValueView);
  Value Intrinsic1(Activation& act, int which, ValueView v);
  Value Intrinsic2(Activation& act, int which, ValueView a, ValueView b);

 private:
  // What the object's type has under `name`, bound to the object.
  Value BindOfType(Activation& act, ValueView object, BorrowedRef found, const char* name);
  [[nodiscard]] bool ImportsAsPython(Activation& act);
  Ref PackageOf(Activation& act);
  // Nothing, without an error: it is not known.
  Ref AbsoluteName(Activation& act, BorrowedRef name, long level);
  void ImportOfLibrary(BorrowedRef name, BorrowedRef fromlist);

  BreakController& breaks_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  NativeArguments& arguments_;
  NativeProtocols& native_;
  Protocols& meaning_;
  AttributeReads& attributes_;
  CallEvaluator& calls_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_PROTOCOLS_STATEMENTS_H_
