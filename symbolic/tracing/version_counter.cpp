#include "symbolic/tracing/version_counter.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace framefuse::tracing {
namespace {

const void* PlaceOf(const c10::VariableVersion& counter);

// torch asks nowhere whether two counters are one. An explicit instantiation may name a private member.
template <auto kMember>
struct PlaceReader {
  friend const void* PlaceOf(const c10::VariableVersion& counter) { return (counter.*kMember).get(); }
};
template struct PlaceReader<&c10::VariableVersion::version_counter_>;

const c10::VariableVersion& VersionOf(const at::Tensor& t) { return t.unsafeGetTensorImpl()->version_counter(); }

const void* MemoryOf(const at::Tensor& t) { return t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(); }

}  // namespace

const void* PlaceOfCounter(const at::Tensor& t) { return PlaceOf(VersionOf(t)); }

bool ShareCounter(const at::Tensor& a, const at::Tensor& b) {
  const void* const place = PlaceOfCounter(a);
  return a.is_same(b) || (place != nullptr && place == PlaceOfCounter(b));
}

bool SameCounter(const c10::VariableVersion& a, const c10::VariableVersion& b) {
  return PlaceOf(a) != nullptr && PlaceOf(a) == PlaceOf(b);
}

bool CountWithOtherMemory(absl::Span<const std::size_t> written, std::size_t count,
                          absl::FunctionRef<const at::Tensor&(std::size_t)> tensor) {
  // Nearly always each counts for itself.
  using Counted = std::pair<const void*, const void*>;  // the counter, and the memory
  std::vector<Counted> shared;
  for (const std::size_t w : written) {
    if (!VersionOf(tensor(w)).unique()) shared.emplace_back(PlaceOfCounter(tensor(w)), MemoryOf(tensor(w)));
  }
  if (shared.empty()) return false;
  std::sort(shared.begin(), shared.end());
  for (std::size_t i = 0; i < count; ++i) {
    const Counted own(PlaceOfCounter(tensor(i)), MemoryOf(tensor(i)));
    const auto first = std::lower_bound(shared.begin(), shared.end(), Counted(own.first, nullptr));
    for (auto at = first; at != shared.end() && at->first == own.first; ++at) {
      if (at->second != own.second) return true;
    }
  }
  return false;
}

}  // namespace framefuse::tracing
