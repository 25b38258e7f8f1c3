// CachedCalls: calls of functools.lru_cache's wrappers: a result in the cache is a value like another, with a source;
// one that is not there is made by captured code. When the entry runs the cache is called for real, or keeps what was
// made, so that it and its counts are as eager leaves them. Invariant: where a result may have been dropped, the graph
// breaks.
#ifndef FRAMEFUSE_SYMBOLIC_CAPTURE_CALLS_CACHED_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CAPTURE_CALLS_CACHED_CALLS_H_

#include <vector>

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

class CachedCalls {
 public:
  CachedCalls(Journals& journals, CallEvaluator& calls);

  Value CallCached(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);

 private:
  // What calls of one wrapper in this attempt found or made and is surely kept, the one touched last at the end.
  struct Touched {
    Py_ssize_t maximum = 0;
    bool missed = false;
    std::vector<const CachedCall*> calls;
    const CachedCall* Find(BorrowedRef key) const;
  };

  Touched TouchedOf(BorrowedRef original, BorrowedRef wrapper) const;
  bool IsForTorch() const;
  BorrowedRef CacheKeyPart(ValueView arg);
  bool CollectCachedArguments(absl::Span<const ValueView> args, BorrowedRef kwnames, CachedCall* call, Ref* key);
  Value MissCached(Activation& act, CachedCall call, BorrowedRef function, absl::Span<const ValueView> args,
                   BorrowedRef kwnames);

  FrameStack& frames_;
  BreakController& breaks_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  NativeArguments& arguments_;
  CallEvaluator& calls_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CAPTURE_CALLS_CACHED_CALLS_H_
