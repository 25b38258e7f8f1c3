// Reads of copies: what eager's backward has saved of `x.data`, whose versions count apart from those of x. In a joint
// graph the backward reads such a value through an `alias` with a mark that no other node of the backward has
// (Node::history), until Partition saves it for itself.
// Invariant: without the mark, and where no pass knows it, the value is saved as x: a write of x raises.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_READS_OF_COPIES_H_
#define FRAMEFUSE_BACKENDS_GRAPH_READS_OF_COPIES_H_

#include <cstdint>

#include "backends/graph/graph.h"
#include "backends/graph/operators.h"

namespace framefuse::ir {

enum class CopyRead : std::uint8_t {
  kNone,
  kOfUnseen,  // nobody outside of the graph has a tensor that counts with it
  kOfResult,  // a result of the graph does (Output::own_version)
};

inline CopyRead CopyReadBy(const Node& n) {
  if (n.phase != Phase::kBackward || n.history == History::kKept || !Is(n.op, OpName::kAlias)) return CopyRead::kNone;
  return n.history == History::kCut ? CopyRead::kOfUnseen : CopyRead::kOfResult;
}

inline void MarkCopyRead(CopyRead read, Node* alias) {
  alias->history = read == CopyRead::kOfUnseen ? History::kCut : History::kCutWrite;
}

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_READS_OF_COPIES_H_
