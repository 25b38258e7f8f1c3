// Sees what torch warns of on this thread while it is alive, and keeps it from the program: an attempt has no effect
// (soundness rule 14). In an attempt torch says each time what it says once a process (due_warnings.h).
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_WARNING_WATCH_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_WARNING_WATCH_H_

#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "symbolic/tracing/due_warnings.h"

namespace framefuse::tracing {

class WarningWatch final : public c10::WarningHandler {
 public:
  // With a recorder whatever is said breaks (due_warnings.h).
  explicit WarningWatch(Recorder* breaks = nullptr)
      : breaks_(breaks), outer_(c10::WarningUtils::get_warning_handler()), guard_(this) {}
  void process(const c10::Warning& warning) override {
    if (outer_ != nullptr && IsSaidEachTime(warning.msg())) return outer_->process(warning);
    if (breaks_ != nullptr) BreakOnWarning(*breaks_, warning);
    if (!first_) first_ = warning.msg();
  }
  const std::optional<std::string>& first() const { return first_; }

 private:
  Recorder* breaks_;
  c10::WarningHandler* outer_;
  std::optional<std::string> first_;
  c10::WarningUtils::WarningHandlerGuard guard_;
};

// What torch's function that Python called has warned of before it came to its operator: the first, and none of them
// is left for Python. Functions that are made of others warn above the recorder.
inline std::optional<std::string> TakeWarningOfCaller() {
  constexpr std::string_view kBuffer = "N5torch16PyWarningHandler15InternalHandlerE";  // torch hides its type_info
  c10::WarningHandler* handler = c10::WarningUtils::get_warning_handler();
  if (handler == nullptr || typeid(*handler).name() != kBuffer) return std::nullopt;
  std::vector<c10::Warning>& warnings =
      static_cast<torch::PyWarningHandler::InternalHandler*>(handler)->warning_buffer_;
  const auto breaks = [](const c10::Warning& w) { return !IsSaidEachTime(w.msg()); };
  const auto first = std::find_if(warnings.begin(), warnings.end(), breaks);
  if (first == warnings.end()) return std::nullopt;
  std::string text = first->msg();
  warnings.clear();
  return text;
}

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_WARNING_WATCH_H_
