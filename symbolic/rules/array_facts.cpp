#include "symbolic/rules/array_facts.h"

#include <cstdint>

#include "absl/container/flat_hash_map.h"

namespace framefuse {
namespace {

enum class ArrayFact : std::uint8_t { kDecidedByValues, kQuiet };

bool Has(std::string_view name, ArrayFact fact) {
  static const auto* facts = new absl::flat_hash_map<std::string_view, ArrayFact>{
#define FF_ARRAY_CALL(name, fact) {name, ArrayFact::fact},
#include "symbolic/rules/array_facts.def"
#undef FF_ARRAY_CALL
  };
  const auto found = facts->find(name);
  return found != facts->end() && found->second == fact;
}

}  // namespace

bool IsDecidedByValues(std::string_view name) { return Has(name, ArrayFact::kDecidedByValues); }
bool IsQuietArrayCall(std::string_view name) { return Has(name, ArrayFact::kQuiet); }

}  // namespace framefuse
