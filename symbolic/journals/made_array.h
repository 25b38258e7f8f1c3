// MadeArray: an array that numpy makes when the entry's graph has run, by the same call that captured code made:
// values, layout, base and warnings are numpy's own. In the capture an array of zeros stands for it, from which numpy
// itself told type and sizes. Invariant: nothing that the call reads is written before it is made; where it would be,
// the graph ends before the write.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_MADE_ARRAY_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_MADE_ARRAY_H_

#include <utility>
#include <vector>

#include "frame_eval/ref.h"
#include "symbolic/entry/deferred_warnings.h"

namespace framefuse {

struct MadeArray {
  Ref function;
  std::vector<Ref> args;  // arrays, what guards decide, and lists of such that nobody else has
  Ref named;              // a dict of what guards decide, or null
  // Tensors whose memory it reads, and how many nodes the graph had then. A view reads nothing yet.
  std::vector<std::pair<Ref, int>> reads;
  std::vector<DeferredWarning> warnings;  // that numpy may say; made in any case, then
  bool warns_here = false;                // at the line of the call, not in numpy's own code
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_MADE_ARRAY_H_
