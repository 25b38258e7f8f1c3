#include "backends/passes/memory_order.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace framefuse {

bool ReachSamePlaces(const ir::ExprTable& exprs, const ir::Value& a, const ir::Value& b) {
  for (std::size_t d = 0; d < a.sizes.size(); ++d) {
    if (exprs.Hint(a.sizes[d]) > 1 && exprs.Hint(a.strides[d]) != exprs.Hint(b.strides[d])) return false;
  }
  return true;
}

bool MayOverlap(const ir::ExprTable& exprs, const ir::Value& v) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride, size
  for (std::size_t d = 0; d < v.rank(); ++d) {
    if (!v.strides[d].is_constant()) return false;
    const std::int64_t size = exprs.Hint(v.sizes[d]);
    if (size > 1) dims.emplace_back(v.strides[d].value, size);
  }
  std::sort(dims.begin(), dims.end());
  std::int64_t reach = 1;  // past the last place of the dimensions so far
  for (const auto& [stride, size] : dims) {
    if (stride < reach) return true;
    reach = stride * (size - 1) + reach;
  }
  return false;
}

bool RandomFollowsMemory(c10::Device device) {
  if (!device.is_cpu()) return true;
  static const bool follows = [] {
    constexpr std::int64_t kRows = 8, kColumns = 16;
    constexpr std::uint64_t kSeed = 7;
    at::Tensor rows = at::empty({kRows, kColumns}), columns = at::empty({kRows, kColumns}).t();
    rows.bernoulli_(0.5, at::detail::createCPUGenerator(kSeed));
    columns.bernoulli_(0.5, at::detail::createCPUGenerator(kSeed));
    return at::equal(rows, columns.t());
  }();
  return follows;
}

bool DrawsPlaceByPlace(const ir::ExprTable& exprs, const ir::Value& target) {
  constexpr std::int64_t kManyNumbers = 16;
  std::int64_t count = 1;
  for (const ir::Dim& d : target.sizes) count *= d.is_constant() ? d.value : kManyNumbers;  // others in other calls
  return target.device.is_cpu() && count >= kManyNumbers && !ir::IsDense(exprs, target);
}

}  // namespace framefuse
