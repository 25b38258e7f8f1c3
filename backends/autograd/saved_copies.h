// Saved copies: what the backward reads of an input or a result through `x.data` is saved for itself, as by eager's
// nodes. It is the same memory, and its versions are those of `x.data`: a counted write of x is no reason to raise, and
// one of an `x.data` that was handed out is.
// Invariant: without such reads the joint graph is as it was; afterwards nothing in it is marked (ir::CopyRead).
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_SAVED_COPIES_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_SAVED_COPIES_H_

#include <cstdint>
#include <vector>

#include "backends/graph/graph.h"

namespace framefuse {

struct SavedCopy {
  ir::ValueId value = ir::kNoValue;  // a node of the forward gives it, which has no history
  ir::ValueId of = ir::kNoValue;     // an input, or a value that leaves the graph
  std::int32_t counts_with = -1;     // the output of the joint graph whose version goes with it; -1: nobody's
};

// In the order in which the joint graph defines them.
std::vector<SavedCopy> MakeSavedCopies(ir::Graph& joint);

// What the input of that number (DifferentiablePlans::read_by_data) held at a time.
struct HeldByInput {
  ir::ValueId value = ir::kNoValue;
  std::int32_t number = 0;
};

// For a second derivative: what the forward reads of the same memory without a history is the copy, too, as the nodes
// of eager's that it computes again have saved it. `copies`: SavedCopy::value of each, which are inputs then.
// `in_copies`: by value, that it never has one, and is saved in no other way. What is read by `x.data` of `before`,
// which the graph overwrote, is a new copy: eager's nodes have saved the memory, and it is to get
// what is there at last. Returns these.
std::vector<HeldByInput> ReadSavedCopies(ir::Graph& joint, const std::vector<ir::ValueId>& copies,
                                         const std::vector<bool>& in_copies, const std::vector<HeldByInput>& before);

// Whether a node of the forward reads one of these so.
bool IsReadByData(const ir::Graph& joint, const std::vector<ir::ValueId>& before);
// Whether no node that saves `value` asks for the version of what holds it.
bool IsReadByDataAlone(const ir::Graph& joint, ir::ValueId value);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_SAVED_COPIES_H_
