#include "symbolic/capture/fx_journal.h"

namespace framefuse {

void FxJournal::Record(FxNode::Op op, BorrowedRef target, BorrowedRef args, BorrowedRef kwargs, BorrowedRef result) {
  FxNode node;
  node.op = op;
  node.target = Ref::Create(target);
  if (keep_values_) {
    node.args = Ref::Create(args);
    node.kwargs = Ref::Create(kwargs);
    node.result = Ref::Create(result);
  }
  nodes_.push_back(std::move(node));
}

}  // namespace framefuse
