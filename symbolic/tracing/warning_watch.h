// Sees what torch warns of on this thread while it is alive, and keeps it from the program: an attempt has no effect
// (soundness rule 14). In an attempt torch says each time what it says once a process (due_warnings.h). What kernels
// warn of because of sizes is not heard: a kernel is run on other sizes to learn something, and CheckWarnings knows it.
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

#include "backends/graph/unsaid_warnings.h"
#include "symbolic/tracing/due_warnings.h"

namespace framefuse::tracing {

// One of ours, before another.
class HandlerOfAttempt : public c10::WarningHandler {
 public:
  c10::WarningHandler* outer = c10::WarningUtils::get_warning_handler();
};

class WarningWatch final : public HandlerOfAttempt {
 public:
  // With a recorder whatever is said breaks (due_warnings.h).
  explicit WarningWatch(Recorder* breaks = nullptr) : breaks_(breaks), guard_(this) {}
  void process(const c10::Warning& warning) override {
    if (ir::IsWarningOfSizes(warning.msg())) return;
    if (outer != nullptr && IsSaidEachTime(warning.msg())) return outer->process(warning);
    if (breaks_ != nullptr) BreakOnWarning(*breaks_, warning);
    if (!first_) first_ = warning.msg();
  }
  const std::optional<std::string>& first() const { return first_; }

 private:
  Recorder* breaks_;
  std::optional<std::string> first_;
  c10::WarningUtils::WarningHandlerGuard guard_;
};

// Where torch keeps what it will say in Python, of torch's function that Python called. Null: there is none.
inline torch::PyWarningHandler::InternalHandler* BufferOfCaller() {
  constexpr std::string_view kBuffer = "N5torch16PyWarningHandler15InternalHandlerE";  // torch hides its type_info
  c10::WarningHandler* handler = c10::WarningUtils::get_warning_handler();
  while (const auto* ours = dynamic_cast<HandlerOfAttempt*>(handler)) handler = ours->outer;
  if (handler == nullptr || typeid(*handler).name() != kBuffer) return nullptr;
  return static_cast<torch::PyWarningHandler::InternalHandler*>(handler);
}

// What torch's function that Python called has warned of before it came to its operator: the first, and none of them
// is left for Python. Functions that are made of others warn above the recorder.
inline std::optional<std::string> TakeWarningOfCaller() {
  if (dynamic_cast<HandlerOfAttempt*>(c10::WarningUtils::get_warning_handler()) != nullptr) return std::nullopt;
  torch::PyWarningHandler::InternalHandler* buffer = BufferOfCaller();
  if (buffer == nullptr) return std::nullopt;
  std::vector<c10::Warning>& warnings = buffer->warning_buffer_;
  const auto breaks = [](const c10::Warning& w) { return !IsSaidEachTime(w.msg()); };
  const auto first = std::find_if(warnings.begin(), warnings.end(), breaks);
  if (first == warnings.end()) return std::nullopt;
  std::string text = first->msg();
  warnings.clear();
  return text;
}

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_WARNING_WATCH_H_
