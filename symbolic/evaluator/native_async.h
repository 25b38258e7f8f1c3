// What CPython's evaluator does for `await`, `async for` and `async with`.
#ifndef FRAMEFUSE_SYMBOLIC_EVALUATOR_NATIVE_ASYNC_H_
#define FRAMEFUSE_SYMBOLIC_EVALUATOR_NATIVE_ASYNC_H_

#include "frame_eval/ref.h"

namespace framefuse {

// GET_AWAITABLE; `arg` says which `async with` method made the object, for the message.
Ref GetAwaitable(BorrowedRef object, int arg);
Ref GetAsyncIterator(BorrowedRef object);
// GET_ANEXT: the awaitable of the next item.
Ref GetAsyncNext(BorrowedRef iterator);
// BEFORE_ASYNC_WITH: the bound __aexit__ and the awaitable that __aenter__ returned.
bool EnterAsync(BorrowedRef manager, Ref* exit, Ref* entered);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EVALUATOR_NATIVE_ASYNC_H_
