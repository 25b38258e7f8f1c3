#include "guards/leaf/overlap.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace framefuse {
namespace {

// Beyond this many moved tensors a fresh sort is cheaper than replacing them one by one.
constexpr std::size_t kMaxReplaced = 16;

bool BeginsBefore(const MemoryRange& a, const MemoryRange& b) { return a.begin < b.begin; }

}  // namespace

OverlapFact FindOverlap(absl::Span<const MemoryRange> ranges) {
  const std::size_t n = ranges.size();
  OverlapFact fact;
  fact.class_of.resize(n);
  fact.distance.resize(n);
  std::iota(fact.class_of.begin(), fact.class_of.end(), 0);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < n; ++i) {
    if (ranges[i].begin != ranges[i].end) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return BeginsBefore(ranges[a], ranges[b]); });
  // A sweep: a run of ranges in which each begins before the furthest end so far is one class.
  for (std::size_t i = 0; i < order.size();) {
    std::uintptr_t end = ranges[order[i]].end;
    std::size_t smallest = order[i];
    std::size_t j = i + 1;
    for (; j < order.size() && ranges[order[j]].begin < end; ++j) {
      end = std::max(end, ranges[order[j]].end);
      smallest = std::min(smallest, order[j]);
    }
    for (; i < j; ++i) {
      fact.class_of[order[i]] = static_cast<std::int32_t>(smallest);
      fact.distance[order[i]] = static_cast<std::int64_t>(ranges[order[i]].data - ranges[smallest].data);
    }
  }
  return fact;
}

std::string ExplainOverlap(const OverlapFact& expected, const OverlapFact& actual,
                           absl::Span<const std::string> names) {
  for (std::size_t i = 0; i < expected.class_of.size(); ++i) {
    const auto want = static_cast<std::size_t>(expected.class_of[i]),
               got = static_cast<std::size_t>(actual.class_of[i]);
    if (want != got) {
      if (got != i) return "tensors '" + names[got] + "' and '" + names[i] + "' share memory, which they did not";
      return "tensors '" + names[want] + "' and '" + names[i] + "' share no memory, which they did";
    }
    if (expected.distance[i] != actual.distance[i]) {
      return "tensor '" + names[i] + "' begins " + std::to_string(actual.distance[i]) + " bytes after '" + names[got] +
             "', expected " + std::to_string(expected.distance[i]);
    }
  }
  return "";
}

OverlapChecker::OverlapChecker(OverlapFact expected) : expected_(std::move(expected)) {
  for (std::size_t i = 0; i < expected_.class_of.size(); ++i) {
    all_distinct_ = all_distinct_ && expected_.class_of[i] == static_cast<std::int32_t>(i);
  }
}

bool OverlapChecker::Check(absl::Span<const MemoryRange> ranges) {
  if (!valid_) return Rebuild(ranges);
  std::size_t moved[kMaxReplaced];
  std::size_t count = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i] == last_[i]) continue;
    if (!all_distinct_ || count == kMaxReplaced) return Rebuild(ranges);
    moved[count++] = i;
  }
  // All moved ones leave before the first comes back: two tensors may have changed places.
  for (std::size_t k = 0; k < count; ++k) {
    if (!Replace(last_[moved[k]], {})) return Rebuild(ranges);
  }
  for (std::size_t k = 0; k < count; ++k) {
    if (!Replace({}, ranges[moved[k]])) return Rebuild(ranges);
    last_[moved[k]] = ranges[moved[k]];
  }
  return true;
}

bool OverlapChecker::Rebuild(absl::Span<const MemoryRange> ranges) {
  last_.assign(ranges.begin(), ranges.end());
  valid_ = FindOverlap(ranges) == expected_;
  if (!valid_ || !all_distinct_) return valid_;
  sorted_.clear();
  for (const MemoryRange& range : ranges) {
    if (range.begin != range.end) sorted_.push_back(range);
  }
  std::sort(sorted_.begin(), sorted_.end(), BeginsBefore);
  return true;
}

// Takes one range out, puts one in (either may be empty); false if the new one overlaps another.
bool OverlapChecker::Replace(const MemoryRange& old_range, const MemoryRange& new_range) {
  if (old_range.begin != old_range.end) {
    auto at = std::lower_bound(sorted_.begin(), sorted_.end(), old_range, BeginsBefore);
    if (at == sorted_.end() || at->begin != old_range.begin) return false;
    sorted_.erase(at);
  }
  if (new_range.begin == new_range.end) return true;
  auto at = std::lower_bound(sorted_.begin(), sorted_.end(), new_range, BeginsBefore);
  if (at != sorted_.end() && at->begin < new_range.end) return false;
  if (at != sorted_.begin() && (at - 1)->end > new_range.begin) return false;
  sorted_.insert(at, new_range);
  return true;
}

}  // namespace framefuse
