// WrittenInputs: what a backward needs of the inputs that a joint graph writes. Their old values are gone when it runs:
// copies are made in front of the graph, and all nodes read those. A second derivative, which runs the forward again
// with histories, starts from what an input was written with, as eager's does, and needs the old value for the rest.
// Invariant: no copy is made that neither derivative may read.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_VALUES_OF_WRITTEN_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_VALUES_OF_WRITTEN_H_

#include <vector>

#include "backends/autograd/partition.h"
#include "backends/graph/graph.h"

namespace framefuse {

class WrittenInputs {
 public:
  explicit WrittenInputs(ir::Graph& joint);

  // Old values, or views of them, that nodes of the backward read.
  void CopyWhatBackwardReads();
  // Old values that a second derivative needs besides what is saved. Returns whether any is copied: then what is saved
  // is to be chosen anew.
  bool CopyForSecondDerivatives(const std::vector<ir::ValueId>& saved);
  // Old and new values that it reads and that are not among `saved`, with which copies were made last.
  std::vector<ir::ValueId> NeededBesides(const std::vector<ir::ValueId>& saved) const;
  void Mark(SavedValue* saved) const;

 private:
  void Copy(const std::vector<bool>& chosen);
  std::vector<ir::ValueId> Starts() const;  // of second derivatives
  // By value: what a second derivative of all gradients reads, where it starts from old and new values. It is found on
  // a copy of the graph.
  std::vector<bool> ReadBySecondDerivatives(const std::vector<ir::ValueId>& saved) const;

  ir::Graph& g_;
  std::vector<ir::ValueId> old_;  // by input: the copy; kNoValue: none
  std::vector<bool> read_;        // by value, by second derivatives; empty: to be found
  std::vector<ir::ValueId> new_;  // by input: computed by the graph; kNoValue: not written, or with what is there
  // So too: what it held before writes without a history, since which its node of eager's is the same.
  std::vector<std::vector<ir::ValueId>> before_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_VALUES_OF_WRITTEN_H_
