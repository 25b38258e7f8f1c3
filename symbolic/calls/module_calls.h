// ModuleCalls: torch.nn.Module.__call__. Torch's two functions between a module's call and its forward() look for
// hooks, and mostly find none: it looks where they do, with the guards that their instructions would leave, and calls
// forward() itself. Invariant: whatever could see that their frames are missing has the attempt made anew with all
// frames.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_MODULE_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_MODULE_CALLS_H_

#include <optional>
#include <vector>
#include "symbolic/evaluator/protocols.h"
#include "symbolic/journals/tracked.h"

namespace framefuse {

class AttributeReads;
class BackwardPhase;
class BreakController;
class CallEvaluator;
class Journals;
class ObjectContents;
class ObjectTable;
class ReadJournal;
class WriteJournal;
struct CaptureOptions;

class ModuleCalls {
 public:
  ModuleCalls(Journals& journals, Protocols& meaning, AttributeReads& attributes, CallEvaluator& calls);

  std::optional<Value> CallModule(Activation& act, absl::Span<const ValueView> args, BorrowedRef kwnames,
                                  Completion completion);

 private:
  BorrowedRef OnlyInType(Tracked& instance, BorrowedRef name);
  bool HasNoHooksForAll(Activation& act, BorrowedRef globals);
  bool HasNoHooks(Activation& act, ValueView module, BorrowedRef call_impl);

  BreakController& breaks_;
  BackwardPhase& backward_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  ObjectContents& contents_;
  const CaptureOptions& options_;
  Protocols& meaning_;
  AttributeReads& attributes_;
  CallEvaluator& calls_;
  std::vector<const Tracked*> hooks_for_all_;  // torch's dicts of hooks of all modules, once looked at and empty
  PyObject* hooks_globals_ = nullptr;          // where they stand
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_MODULE_CALLS_H_
