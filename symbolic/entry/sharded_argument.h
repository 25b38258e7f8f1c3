// An argument that is a DTensor: the graph gets an alias of its local tensor. All needs the GIL.
#ifndef FRAMEFUSE_SYMBOLIC_ENTRY_SHARDED_ARGUMENT_H_
#define FRAMEFUSE_SYMBOLIC_ENTRY_SHARDED_ARGUMENT_H_

#include <cstddef>

#include "frame_eval/ref.h"

namespace framefuse {

// A DTensor whose local tensor is an input.
struct ShardedArgument {
  std::size_t input = 0;
  Ref entrance;  // framefuse._sharded.Entrance
};

// The alias of the DTensor's local tensor that a graph gets; null: an error is set.
Ref Enter(BorrowedRef entrance, BorrowedRef sharded);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ENTRY_SHARDED_ARGUMENT_H_
