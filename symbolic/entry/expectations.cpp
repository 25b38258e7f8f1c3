#include "symbolic/entry/expectations.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace framefuse {

bool Expectations::IsRefuted() const {
  if (absl::c_any_of(outputs, [&](const auto& e) { return raising->IsRefuted(e.code, e.instruction); })) return true;
  if (absl::c_any_of(warnings, [&](const auto& w) { return raising->IsRefuted(w.code, w.instruction); })) return true;
  if (deferred.empty() || !unbacked->any_refuted()) return false;
  return absl::c_any_of(deferred, [&](const auto& d) { return unbacked->IsRefuted(d.code, d.instruction); });
}

std::string Expectations::Refutation() const {
  for (const ExpectedOutput& e : outputs) {
    if (raising->IsRefuted(e.code, e.instruction)) {
      return absl::StrCat("the branch at ", e.place, " was expected not to raise");
    }
  }
  for (const DeferredFact& d : deferred) {
    if (unbacked->IsRefuted(d.code, d.instruction)) return absl::StrCat(d.text, " did not hold");
  }
  for (const DeferredWarning& w : warnings) {
    if (raising->IsRefuted(w.code, w.instruction)) return absl::StrCat("the warning at ", w.place, " was heard");
  }
  return {};
}

}  // namespace framefuse
