#include "backends/passes/memory_order.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/graph/dim_algebra.h"

namespace framefuse {

bool ReachSameOffsets(const ir::Value& a, const ir::Value& b) {
  for (std::size_t d = 0; d < a.sizes.size(); ++d) {
    const bool one_place = a.sizes[d].Is(0) || a.sizes[d].Is(1);
    if (!one_place && !(a.strides[d] == b.strides[d])) return false;
  }
  return true;
}

bool MayOverlap(ir::ExprTable& exprs, const ir::Value& v) {
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < v.rank(); ++d) {
    if (!v.sizes[d].Is(0) && !v.sizes[d].Is(1)) order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return exprs.Hint(v.strides[a]) < exprs.Hint(v.strides[b]); });
  ir::DimAlgebra algebra(exprs);
  ir::Dim reach(1);  // past the last place of the dimensions so far
  for (const std::size_t d : order) {
    if (!algebra.Decide(ir::ExprKind::kLe, reach, v.strides[d]).value_or(false)) return true;
    reach = algebra.Add(algebra.Multiply(v.strides[d], algebra.Add(v.sizes[d], ir::Dim(-1))), reach);
  }
  return false;
}

void TakeStrides(ir::ExprTable& exprs, ir::Value& v, at::IntArrayRef strides) {
  std::vector<std::size_t> order;
  bool known = true;
  for (std::size_t d = strides.size(); d-- > 0;) {
    known = known && exprs.Hint(v.strides[d]) == strides[d];
    order.push_back(d);
  }
  if (known) return;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
  std::vector<ir::Dim> steps = {ir::Dim(1)};
  for (const std::size_t d : order) {
    if (v.sizes[d].Is(1)) continue;
    // A constant would be the stride for the sizes at hand alone.
    v.strides[d] = steps.back().is_symbolic() ? steps.back() : ir::Dim(strides[d]);
    if (!v.sizes[d].Is(0)) steps.push_back(ir::DimAlgebra(exprs).Multiply(v.strides[d], v.sizes[d]));
  }
  // By these nothing is reached: any that has the right value now.
  for (const std::size_t d : order) {
    if (!v.sizes[d].Is(1)) continue;
    const auto same = [&](const ir::Dim& step) { return exprs.Hint(step) == strides[d]; };
    const auto step = std::find_if(steps.begin(), steps.end(), same);
    v.strides[d] = step != steps.end() ? *step : ir::Dim(strides[d]);
  }
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

bool DrawsInMemoryOrder(ir::ExprTable& exprs, const ir::Value& target) {
  constexpr std::int64_t kManyNumbers = 16;
  std::int64_t count = 1;
  for (const ir::Dim& d : target.sizes)
    count *= d.is_constant() ? d.constant() : kManyNumbers;  // others in other calls
  return target.device.is_cpu() && count >= kManyNumbers && !ir::IsDense(exprs, target);
}

}  // namespace framefuse
