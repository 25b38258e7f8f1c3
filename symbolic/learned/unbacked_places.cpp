#include "symbolic/learned/unbacked_places.h"

#include "absl/strings/str_cat.h"
#include "symbolic/messages/code_text.h"

namespace framefuse {

void UnbackedPlaces::Refute(PyCodeObject* code, int instruction, const std::string& needed_at) {
  misses_[{code, instruction}] = kMostMisses;
  any_refuted_ = true;
  if (!needed_at.empty()) needed_at_[{FileNameOf(code), LineOf(code, instruction)}] = needed_at;
}

void UnbackedPlaces::Explain(GraphBreakReason* reason) const {
  if (reason->kind != GraphBreakKind::kTensorToPython) return;
  const auto found = needed_at_.find({reason->file, reason->line});
  if (found == needed_at_.end()) return;
  absl::StrAppend(&reason->context, "; the code looks at the number, or at how many there are, at ", found->second);
}

}  // namespace framefuse
