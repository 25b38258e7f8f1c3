// Tensor.register_hook in captured code, of a tensor that the graph computes: the tensor becomes an output of the
// graph, and the entry puts the hook on it before the program goes on. Invariant: nothing writes the tensor afterwards,
// and no backward pass of the same graph comes by it.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_HOOK_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_HOOK_CALLS_H_

#include <optional>

#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class ObjectTable;
class ReadJournal;
class WriteJournal;

// `args`: the tensor and the hook. A handle of which nothing can be asked; nothing: the call is one like any other.
std::optional<Value> DeferHook(ObjectTable& objects, ReadJournal& reads, WriteJournal& writes, BorrowedRef function,
                               absl::Span<const ValueView> args);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_HOOK_CALLS_H_
