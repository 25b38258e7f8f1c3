// CachedCalls: calls of functools.lru_cache's wrappers: a result in the cache is a value like another, with a source;
// one that is not there is computed by captured code. The calls are made for real when the entry runs, so that the
// cache and its counts are as eager leaves them. Invariant: where the function does more than compute, the graph
// breaks.
#ifndef FRAMEFUSE_SYMBOLIC_CAPTURE_CALLS_CACHED_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CAPTURE_CALLS_CACHED_CALLS_H_

#include "symbolic/capture/journals/write_journal.h"
#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class BreakController;
class CallEvaluator;
class FrameStack;
class Journals;
class NativeArguments;
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

 private:
  bool IsForTorch() const;
  BorrowedRef CacheKeyPart(ValueView arg);
  bool CollectCachedArguments(absl::Span<const ValueView> args, BorrowedRef kwnames, CachedCall* call, Ref* key);
  Value MissCached(Activation& act, CachedCall call, Ref key, BorrowedRef function, absl::Span<const ValueView> args,
                   BorrowedRef kwnames);

  FrameStack& frames_;
  tracing::Tracer& tracer_;
  BreakController& breaks_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  NativeArguments& arguments_;
  CallEvaluator& calls_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CAPTURE_CALLS_CACHED_CALLS_H_
