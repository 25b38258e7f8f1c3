// MethodCalls: calls of C methods with their self as first argument: of object, of dicts that are tracked, and of any
// other builtin type where a rule says what the method does to it.
// Invariant: what a method writes of a tracked object is marked before it runs.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_METHOD_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_METHOD_CALLS_H_

#include <optional>
#include "symbolic/calls/array_calls.h"
#include "symbolic/calls/getters.h"
#include "symbolic/calls/reductions.h"
#include "symbolic/evaluator/protocols.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/protocols/symbolic_keys.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {

class AttributeReads;
class AttributeWrites;
class BackwardPhase;
class BreakController;
class FrameStack;
class CallEvaluator;
class ContextVariables;
class Journals;
class NativeArguments;
class NativeBoundary;
class NativeCalls;
class ObjectContents;
class ObjectTable;
class ReadJournal;
class TensorAttributes;
class WriteJournal;
namespace tracing {
class Tracer;
}

class MethodCalls {
 public:
  MethodCalls(Journals& journals, AttributeReads& attributes, TensorAttributes& tensor_attributes,
              AttributeWrites& attribute_writes, CallEvaluator& calls, NativeCalls& natives);

  Value CallDescriptor(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // A pure C function that may call an argument.
  Value CallThatCallsBack(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);

 private:
  // What a tensor holds, as numbers or an array. Nothing: it is not known.
  std::optional<Value> CallThatTells(ValueView callable, absl::string_view name, ValueView tensor);
  Value CallMethodWrapper(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  Value CallMethodOfObject(Activation& act, ValueView callable, absl::string_view name,
                           absl::Span<const ValueView> args, BorrowedRef kwnames);
  std::optional<Value> CallMethodOfTrackedDict(Tracked& t, const MethodFacts& method, absl::Span<const ValueView> args);
  Value PopFromInstanceDict(Tracked& t, absl::Span<const ValueView> args);
  [[nodiscard]] bool NoteWrite(Tracked& t, absl::string_view method, absl::Span<const ValueView> args);  // false: broke
  Value CallMethodOfBuiltin(ValueView callable, const MethodFacts& method, absl::Span<const ValueView> args,
                            BorrowedRef kwnames);

  tracing::Tracer& tracer_;
  const FrameStack& frames_;
  BreakController& breaks_;
  BackwardPhase& backward_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  ObjectContents& contents_;
  ContextVariables& contexts_;
  NativeArguments& arguments_;
  AttributeReads& attributes_;
  TensorAttributes& tensor_attributes_;
  AttributeWrites& attribute_writes_;
  CallEvaluator& calls_;
  NativeCalls& natives_;
  Reductions reductions_;
  Getters getters_;
  SymbolicKeys keys_;
  ArrayCalls arrays_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_METHOD_CALLS_H_
