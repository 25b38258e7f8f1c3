// RaisingBranches: the branches of a compiled object's code that were found to go the way that raises, with a handler
// that caught the error. Invariant: a place once refuted is not expected to go on again.
#ifndef FRAMEFUSE_SYMBOLIC_LEARNED_RAISING_BRANCHES_H_
#define FRAMEFUSE_SYMBOLIC_LEARNED_RAISING_BRANCHES_H_

#include <Python.h>

#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace framefuse {

// The value of a tensor that an entry expects at a branch of which the other way only raises.
struct ExpectedOutput {
  int output = 0;  // of the graph: a tensor of one element
  bool truth = false;
  const PyCodeObject* code = nullptr;  // compared, never read
  int instruction = 0;
  std::string place;  // file:line, for people
};

class RaisingBranches {
 public:
  void Refute(const PyCodeObject* code, int instruction) { refuted_.insert({code, instruction}); }
  bool IsRefuted(const PyCodeObject* code, int instruction) const { return refuted_.contains({code, instruction}); }

 private:
  absl::flat_hash_set<std::pair<const PyCodeObject*, int>> refuted_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_LEARNED_RAISING_BRANCHES_H_
