// CachedCalls: calls of functools.lru_cache's wrappers: a result in the cache is a value like another, with a source;
// one that is not there is made by captured code. When the entry runs the cache is called for real, or keeps what was
// made, so that it and its counts are as eager leaves them. Invariant: where a result may have been dropped, the graph
// breaks.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_CACHED_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_CACHED_CALLS_H_

#include <optional>

#include "frame_eval/ref.h"
#include "symbolic/calls/cached_keys.h"
#include "symbolic/evaluator/protocols.h"
#include "symbolic/journals/write_journal.h"

namespace framefuse {

class BreakController;
class CallEvaluator;
class FrameStack;
class FxJournal;
class Journals;
class ObjectContents;
class ObjectTable;
class ReadJournal;
class WriteJournal;
namespace tracing {
class Tracer;
}

class CachedCalls {
 public:
  CachedCalls(Journals& journals, CallEvaluator& calls);

  Value CallCached(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // Of a function that only notes its arguments and returns None.
  Value Defer(ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // Of Tensor.register_hook (hook_calls.h).
  std::optional<Value> DeferHook(BorrowedRef function, absl::Span<const ValueView> args);
  // The function for a class that a function of functools.singledispatch finds, as if it cached none.
  Value CallDispatch(Activation& act, ValueView function, absl::Span<const ValueView> args);

 private:
  // What the calls of the wrapper in this attempt say of another one. At most `maximum` results are kept, those touched
  // last; negative: all are.
  struct Earlier {
    const CachedCall* same = nullptr;  // of the same key, and its result is kept
    bool is_dropped = false;           // so many others were touched that nothing else is kept
    bool may_have_dropped = false;     // some made a result
  };

  Earlier FindEarlier(const CachedCall& call, Py_ssize_t maximum) const;
  bool IsForTorch() const;
  Value MissCached(Activation& act, CachedCall call, BorrowedRef function, absl::Span<const ValueView> args,
                   BorrowedRef kwnames);

  FrameStack& frames_;
  BreakController& breaks_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  ObjectContents& contents_;
  WriteJournal& writes_;
  CallEvaluator& calls_;
  const FxJournal& fx_;
  CachedKeys keys_;
  tracing::Tracer& tracer_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_CACHED_CALLS_H_
