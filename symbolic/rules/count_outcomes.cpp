#include "symbolic/rules/count_outcomes.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace framefuse {
namespace {

constexpr const char* kFamily = "call rule";

// In the order of CallRule::Kind.
constexpr const char* kKinds[] = {"pure", "moves", "plain", "numpy", "torch", "special", "breaks", "deferred"};

// In the order of SpecialCall.
constexpr const char* kSpecial[] = {
#define FF_SPECIAL_CALL(which, family) #which,
#include "symbolic/rules/special_calls.def"
#undef FF_SPECIAL_CALL
};

std::string SpecialText(const char* name) { return absl::StrCat("special: ", name + 1); }

const bool declared = [] {
  for (const char* kind : {"pure", "moves", "plain", "numpy", "torch", "torch state", "breaks", "deferred"}) {
    DeclareKinds(kFamily, {kind});
  }
  for (const char* name : kSpecial) DeclareKinds(kFamily, {SpecialText(name).c_str()});
  return true;
}();

std::string KindText(const CallRule& rule) {
  if (rule.kind == CallRule::Kind::kTorch && rule.sets_torch_state) return "torch state";
  if (rule.kind != CallRule::Kind::kSpecial) return kKinds[static_cast<std::size_t>(rule.kind)];
  return SpecialText(kSpecial[static_cast<std::size_t>(rule.special)]);
}

}  // namespace

void CountRule(const CallRule& rule, bool taken) { CountKind(kFamily, KindText(rule), taken); }

}  // namespace framefuse
