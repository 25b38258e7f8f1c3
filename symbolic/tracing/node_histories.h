// What eager's autograd has of a node of the forward: nothing of a write through `t.data`, and not of what it reads
// through a tensor without the history that its value has (`t.data`, after `t.detach_()`).
// A second derivative asks for it (ir::History, ir::Node::detached_uses).
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_NODE_HISTORIES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_NODE_HISTORIES_H_

#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include "backends/graph/graph.h"
#include "frame_eval/ref.h"
#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

// Once the node has its arguments. Breaks where a tensor gets a history beside another that stands for its value.
void NoteHistories(const OpTraits& traits, c10::ArrayRef<c10::IValue> args, ir::Node* node);

// Of `t.detach_()`.
void NoteDetachedInPlace(BorrowedRef fake);

bool HaveHistories(const ir::Node& node, c10::ArrayRef<c10::IValue> args);
// The floating-point tensors among the results, and in lists.
void GiveHistories(c10::ArrayRef<c10::IValue> results);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_NODE_HISTORIES_H_
