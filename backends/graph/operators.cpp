#include "backends/graph/operators.h"

#include <atomic>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "common/check.h"

namespace framefuse::ir {
namespace {

using enum OpFact;

struct TextRow {
  std::string_view text;
  std::uint64_t facts;
};

constexpr std::uint64_t Bits(std::initializer_list<OpFact> facts) {
  std::uint64_t bits = 0;
  for (const OpFact f : facts) bits |= static_cast<std::uint64_t>(f);
  return bits;
}

// One overload, by OpName.
constexpr TextRow kOverloads[] = {
    {"", 0},
#define FF_OP(id, name, ...) {name, Bits({__VA_ARGS__})},
#include "backends/graph/operators.def"
};
// All overloads of a name.
constexpr TextRow kFunctions[] = {
#define FF_OPS(name, ...) {name, Bits({__VA_ARGS__})},
#include "backends/graph/operators.def"
};
constexpr TextRow kBeginnings[] = {
#define FF_OPS_BEGINNING(part, ...) {part, Bits({__VA_ARGS__})},
#include "backends/graph/operators.def"
};
constexpr TextRow kParts[] = {
#define FF_OPS_WITH(part, ...) {part, Bits({__VA_ARGS__})},
#include "backends/graph/operators.def"
};

std::uint64_t FactsOfFunction(std::string_view function) {
  static const auto* functions = [] {
    auto* made = new absl::flat_hash_map<std::string_view, std::uint64_t>;
    for (const TextRow& row : kFunctions) FF_CHECK(made->emplace(row.text, row.facts).second) << row.text;
    return made;
  }();
  const auto it = functions->find(function);
  return it == functions->end() ? 0 : it->second;
}

// aten._foreach_add, aten.add_ and aten._foreach_add_ are as determined as aten.add is.
std::uint64_t Determined(std::string_view function) {
  constexpr std::string_view kAtenName = "aten.", kEach = "_foreach_";
  std::string_view plain = function;
  if (!plain.starts_with(kAtenName)) return 0;
  plain.remove_prefix(kAtenName.size());
  const bool writes = plain.ends_with('_');
  if (plain.starts_with(kEach)) plain.remove_prefix(kEach.size());
  if (writes) plain.remove_suffix(1);
  if ((FactsOfFunction(std::string(kAtenName).append(plain)) & Bits({kDetermined})) == 0) return 0;
  return writes ? Bits({kDeterminedWrite}) : Bits({kDetermined});
}

}  // namespace

OpName NameOf(std::string_view printed_name) {
  static const auto* names = [] {
    auto* made = new absl::flat_hash_map<std::string_view, OpName>;
    for (std::size_t i = 1; i < kOpNames; ++i)
      FF_CHECK(made->emplace(kOverloads[i].text, static_cast<OpName>(i)).second) << kOverloads[i].text;
    return made;
  }();
  const auto it = names->find(printed_name);
  return it == names->end() ? OpName::kUnknown : it->second;
}

std::string_view TextOf(OpName name) { return kOverloads[static_cast<std::size_t>(name)].text; }

OpRow RowOf(std::string_view printed_name) {
  const std::string_view function = printed_name.substr(0, printed_name.find('.', printed_name.find('.') + 1));
  OpRow row{NameOf(printed_name), FactsOfFunction(function) | Determined(function)};
  row.facts |= kOverloads[static_cast<std::size_t>(row.name)].facts;
  for (const TextRow& r : kBeginnings) row.facts |= printed_name.starts_with(r.text) ? r.facts : 0;
  for (const TextRow& r : kParts) row.facts |= printed_name.find(r.text) != std::string_view::npos ? r.facts : 0;
  return row;
}

OpId RequireOp(OpName name) {
  static std::array<std::atomic<OpId>, kOpNames> found{};
  std::atomic<OpId>& op = found[static_cast<std::size_t>(name)];
  if (const OpId known = op.load(std::memory_order_acquire)) return known;
  const OpId required = RequireOp(TextOf(name));
  op.store(required, std::memory_order_release);
  return required;
}

}  // namespace framefuse::ir
