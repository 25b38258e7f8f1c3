#include "common/coverage.h"

#include <map>
#include <mutex>
#include <utility>

namespace framefuse {
namespace {

struct Outcomes {
  std::int64_t yes = 0, no = 0;
};

struct Table {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, Outcomes> kinds;
};

Table& Kinds() {
  static Table* const table = new Table;  // never destroyed: threads may count at exit
  return *table;
}

}  // namespace

std::atomic<bool> coverage_internal::counting{false};

void SetCountsKinds(bool on) { coverage_internal::counting.store(on, std::memory_order_relaxed); }

void CountKind(std::string_view family, std::string_view kind, bool outcome) {
  Table& table = Kinds();
  const std::lock_guard<std::mutex> lock(table.mutex);
  Outcomes& counts = table.kinds[{std::string(family), std::string(kind)}];
  ++(outcome ? counts.yes : counts.no);
}

bool DeclareKinds(std::string_view family, std::initializer_list<const char*> kinds) {
  Table& table = Kinds();
  const std::lock_guard<std::mutex> lock(table.mutex);
  for (const char* kind : kinds) table.kinds[{std::string(family), kind}];
  return true;
}

std::vector<KindCount> KindCounts() {
  Table& table = Kinds();
  const std::lock_guard<std::mutex> lock(table.mutex);
  std::vector<KindCount> counts;
  for (const auto& [name, outcomes] : table.kinds) {
    counts.push_back(KindCount{name.first, name.second, outcomes.yes, outcomes.no});
  }
  return counts;
}

void ForgetKindCounts() {
  Table& table = Kinds();
  const std::lock_guard<std::mutex> lock(table.mutex);
  for (auto& [name, outcomes] : table.kinds) outcomes = Outcomes();
}

}  // namespace framefuse
