#include "symbolic/capture/count_outcomes.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace framefuse {
namespace {

constexpr const char* kFamily = "call rule";

// In the order of CallRule::Kind.
constexpr const char* kKinds[] = {"pure", "moves", "plain", "numpy", "torch", "special", "breaks", "deferred"};

struct SpecialName {
  SpecialCall which;
  const char* name;
};
constexpr SpecialName kSpecial[] = {
#define FF_PURE(path)
#define FF_MOVES(path)
#define FF_PLAIN(path)
#define FF_NUMPY(path)
#define FF_TORCH(path)
#define FF_TORCH_STATE(path)
#define FF_SPECIAL(path, which) {SpecialCall::which, #which},
#define FF_BREAKS(path, kind)
#include "symbolic/capture/call_rules.def"
    // Registered by the package.
    {SpecialCall::kGraphBreak, "kGraphBreak"},       {SpecialCall::kIsCompiling, "kIsCompiling"},
    {SpecialCall::kAllowInGraph, "kAllowInGraph"},   {SpecialCall::kCond, "kCond"},
    {SpecialCall::kInferenceMode, "kInferenceMode"}, {SpecialCall::kDeepCopyOfTensor, "kDeepCopyOfTensor"},
    {SpecialCall::kCheckpoint, "kCheckpoint"}};

std::string SpecialText(const char* name) { return absl::StrCat("special: ", name + 1); }

const bool declared = [] {
  for (const char* kind : {"pure", "moves", "plain", "numpy", "torch", "torch state", "breaks", "deferred"}) {
    DeclareKinds(kFamily, {kind});
  }
  for (const SpecialName& special : kSpecial) DeclareKinds(kFamily, {SpecialText(special.name).c_str()});
  return true;
}();

std::string KindText(const CallRule& rule) {
  if (rule.kind == CallRule::Kind::kTorch && rule.sets_torch_state) return "torch state";
  if (rule.kind != CallRule::Kind::kSpecial) return kKinds[static_cast<std::size_t>(rule.kind)];
  for (const SpecialName& special : kSpecial) {
    if (special.which == rule.special) return SpecialText(special.name);
  }
  return "special: another";
}

}  // namespace

void CountRule(const CallRule& rule, bool taken) { CountKind(kFamily, KindText(rule), taken); }

}  // namespace framefuse
