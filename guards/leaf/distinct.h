// leaf/distinct: objects that a capture wrote are seen under no second name (soundness rule 11, for Python objects).
// A group holds what could be one object: containers of one type, instances of one type, or dicts and the dicts that
// hold instances' attributes. In it no written object is another one; those only read may coincide.
// Invariant: one pass over a group, however many of its objects are written.
#ifndef FRAMEFUSE_GUARDS_LEAF_DISTINCT_H_
#define FRAMEFUSE_GUARDS_LEAF_DISTINCT_H_

#include <optional>
#include <utility>
#include <vector>

#include "frame_eval/ref.h"
#include "guards/source.h"

namespace framefuse {

struct DistinctObject {
  SourceId source = kNoSource;
  bool attributes = false;  // not the object itself: the dict that holds its attributes, where it has one
};

struct DistinctObjects {
  std::vector<DistinctObject> written, others;
};

class DistinctChecker {
 public:
  // `values`: of all sources.
  bool Check(const DistinctObjects& group, PyObject* const* values);
  // Two members that are one object, the written one second.
  static std::optional<std::pair<DistinctObject, DistinctObject>> FindCoinciding(const DistinctObjects& group,
                                                                                 PyObject* const* values);

 private:
  std::vector<PyObject*> table_;  // of the written ones: open addressing, a power of two
};

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_LEAF_DISTINCT_H_
