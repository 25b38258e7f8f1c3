// BuiltinCalls: builtins and library functions that capture does itself, since they read attributes, types or frames
// (FF_SPECIAL in call_rules.def).
// Invariant: wrong arguments go to the builtin itself, which raises.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_BUILTIN_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_BUILTIN_CALLS_H_

#include "symbolic/calls/listing_calls.h"
#include "symbolic/calls/signature_calls.h"
#include "symbolic/calls/torch_specials.h"
#include "symbolic/evaluator/protocols.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {

class AutogradCalls;
class BackwardPhase;
class BreakController;
class CallEvaluator;
class ClassStatements;
class FrameStack;
class Iteration;
class Journals;
class NativeArguments;
class NativeBoundary;
class NativeCalls;
class ObjectTable;
class RandomDraws;
class ReadJournal;
class TextConversion;
struct Tracked;
class WriteJournal;
namespace tracing {
class Tracer;
}

class BuiltinCalls {
 public:
  BuiltinCalls(Journals& journals, Protocols& meaning, ClassStatements& class_statements, Iteration& iteration,
               TextConversion& text, CallEvaluator& calls, NativeCalls& natives, AutogradCalls& autograd);

  Value CallSpecial(Activation& act, SpecialCall which, ValueView callable, absl::Span<const ValueView> args,
                    BorrowedRef kwnames);
  TorchSpecials& torch() { return torch_; }

 private:
  Value CallAbcCheck(Activation& act, ValueView callable, absl::Span<const ValueView> args, bool of_instance);
  Value CallAttributeBuiltin(Activation& act, SpecialCall which, ValueView callable, absl::Span<const ValueView> args,
                             BorrowedRef kwnames);
  Value CallTypeBuiltin(Activation& act, SpecialCall which, ValueView callable, absl::Span<const ValueView> args,
                        BorrowedRef kwnames);
  Value CallObjectBuiltin(Activation& act, SpecialCall which, ValueView callable, absl::Span<const ValueView> args,
                          BorrowedRef kwnames);
  Value CallTextBuiltin(Activation& act, SpecialCall which, ValueView callable, absl::Span<const ValueView> args,
                        BorrowedRef kwnames);
  bool IsAskedForMembers() const;                                      // __hash__ of a tensor
  bool MakesMemoKey(const Activation& act, BorrowedRef object) const;  // id() in a deep copy
  Value AddressOf(const Activation& act, ValueView object);
  Value HashOf(ValueView callable, absl::Span<const ValueView> args);
  Value CallWriter(ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  Value CallOfLibrary(SpecialCall which, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  Value DrawOfOwn(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  Value CallOtherSpecial(Activation& act, SpecialCall which, ValueView callable, absl::Span<const ValueView> args,
                         BorrowedRef kwnames);

  FrameStack& frames_;
  tracing::Tracer& tracer_;
  BreakController& breaks_;
  BackwardPhase& backward_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  NativeArguments& arguments_;
  Protocols& meaning_;
  ClassStatements& class_statements_;
  Iteration& iteration_;
  TextConversion& text_;
  CallEvaluator& calls_;
  NativeCalls& natives_;
  SignatureCalls signatures_;
  RandomDraws& draws_;
  ListingCalls listings_;
  TorchSpecials torch_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_BUILTIN_CALLS_H_
