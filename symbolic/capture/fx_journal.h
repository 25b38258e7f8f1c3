// FxJournal: the torch-level calls of an attempt in order, for explain() and for FX backends.
// Invariant: with `keep_values` off only the targets are kept, so no fake outlives its use. With it on, a
// value is known by its object's identity; the journal keeps arguments and results alive until it dies, its lists and
// dicts as they were at the call.
#ifndef FRAMEFUSE_SYMBOLIC_CAPTURE_FX_JOURNAL_H_
#define FRAMEFUSE_SYMBOLIC_CAPTURE_FX_JOURNAL_H_

#include <cstdint>
#include <vector>

#include "frame_eval/ref.h"

namespace framefuse {

struct FxNode {
  enum class Op : std::uint8_t { kCallFunction, kCallMethod, kGetAttr };
  Op op = Op::kCallFunction;
  Ref target;  // the callable, or the method's name
  Ref args;    // tuple, keyword dict: containers holding fakes (empty unless values are kept)
  Ref kwargs;
  Ref result;
};

class FxJournal {
 public:
  explicit FxJournal(bool keep_values) : keep_values_(keep_values) {}
  bool keep_values() const { return keep_values_; }
  void Record(FxNode::Op op, BorrowedRef target, BorrowedRef args, BorrowedRef kwargs, BorrowedRef result);
  void Truncate(std::size_t count) { nodes_.resize(count); }
  const std::vector<FxNode>& nodes() const { return nodes_; }

 private:
  bool keep_values_;
  std::vector<FxNode> nodes_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CAPTURE_FX_JOURNAL_H_
