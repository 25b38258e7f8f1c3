// leaf/overlap: how the memory of a list of tensors overlaps (soundness rule 11).
// Tensors are in one class if their storages' address ranges are connected; within a class of several, the distance
// of each first element from the class's first member is part of the fact. Address ranges, not storage objects:
// two storages can be made over one buffer.
#ifndef FRAMEFUSE_GUARDS_LEAF_OVERLAP_H_
#define FRAMEFUSE_GUARDS_LEAF_OVERLAP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace framefuse {

struct MemoryRange {
  std::uintptr_t begin = 0, end = 0;  // the storage; empty: no memory, overlaps nothing
  std::uintptr_t data = 0;            // the first element
  bool operator==(const MemoryRange&) const = default;
};

struct OverlapFact {
  std::vector<std::int32_t> class_of;  // the smallest index of the same class
  std::vector<std::int64_t> distance;  // bytes from the first element of that index's tensor; 0 in classes of one
  bool operator==(const OverlapFact&) const = default;
};

OverlapFact FindOverlap(absl::Span<const MemoryRange> ranges);
// The first tensor whose class or distance differs, as text; empty where none.
std::string ExplainOverlap(const OverlapFact& expected, const OverlapFact& actual, absl::Span<const std::string> names);

// Checks the same fact again and again. Where nothing overlaps (nearly always), only the tensors that moved since the
// last check are looked at.
class OverlapChecker {
 public:
  explicit OverlapChecker(OverlapFact expected);
  bool Check(absl::Span<const MemoryRange> ranges);
  const OverlapFact& expected() const { return expected_; }

 private:
  bool Rebuild(absl::Span<const MemoryRange> ranges);
  bool Replace(const MemoryRange& old_range, const MemoryRange& new_range);

  OverlapFact expected_;
  bool all_distinct_ = true;
  bool valid_ = false;
  std::vector<MemoryRange> last_;    // by tensor
  std::vector<MemoryRange> sorted_;  // non-empty ones by begin; disjoint while valid_ and all_distinct_
};

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_LEAF_OVERLAP_H_
