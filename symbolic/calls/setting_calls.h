// SettingCalls: torch's settings that a program reads and sets on the way (default dtype, backends that are on, how
// exact float32 products are, how many threads there are). Invariant: a graph runs under one set of what operators go
// by. What is set before its first operator it runs under; what is set behind them holds from its end on, and the next
// operator that goes by it ends the graph.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_SETTING_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_SETTING_CALLS_H_

#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class BackwardPhase;
class BreakController;
class FxJournal;
class Journals;
class NativeArguments;
class NativeCalls;
class ReadJournal;
class WriteJournal;
namespace tracing {
class Tracer;
}

class SettingCalls {
 public:
  SettingCalls(Journals& journals, NativeCalls& natives);

  Value Read(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // One that can be put back as it was, for the capture to go on under it.
  Value Set(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // One of several that hang together: only what is so already, and the entry says it again.
  Value SetAgain(ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);

 private:
  BreakController& breaks_;
  const FxJournal& fx_;
  const BackwardPhase& backward_;
  ReadJournal& reads_;
  NativeArguments& arguments_;
  WriteJournal& writes_;
  tracing::Tracer& tracer_;
  NativeCalls& natives_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_SETTING_CALLS_H_
