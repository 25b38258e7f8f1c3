// What operators of a graph would warn of each time, because of their operands' sizes. Recording finds it out, and the
// program says it where it called torch (symbolic/tracing/check_warnings.cpp); the graph's own run says nothing.
// Invariant: every other warning goes to whoever listened before.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_UNSAID_WARNINGS_H_
#define FRAMEFUSE_BACKENDS_GRAPH_UNSAID_WARNINGS_H_

#include <c10/util/Exception.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "backends/graph/graph.h"

namespace framefuse::ir {

// std and var over too few elements for their correction.
[[nodiscard]] bool IsWarningOfSizes(std::string_view words);

[[nodiscard]] bool MayWarnOfSizes(const Graph& graph);

// While one lives, operators that C++ code calls on this thread do not say it.
class WarningsOfSizesUnsaid {
 public:
  explicit WarningsOfSizesUnsaid(bool wanted = true);  // false: all is said
  WarningsOfSizesUnsaid(const WarningsOfSizesUnsaid&) = delete;
  WarningsOfSizesUnsaid& operator=(const WarningsOfSizesUnsaid&) = delete;

 private:
  class Handler final : public c10::WarningHandler {
   public:
    void process(const c10::Warning& warning) override;
    c10::WarningHandler* outer = nullptr;
  };
  Handler handler_;
  std::optional<c10::WarningUtils::WarningHandlerGuard> guard_;
};

// Nor do those that Python code calls, to each of which torch gives a listener of its own.
class WarningsOfSizesUnsaidInPython {
 public:
  WarningsOfSizesUnsaidInPython();
  ~WarningsOfSizesUnsaidInPython();
  WarningsOfSizesUnsaidInPython(const WarningsOfSizesUnsaidInPython&) = delete;
  WarningsOfSizesUnsaidInPython& operator=(const WarningsOfSizesUnsaidInPython&) = delete;

 private:
  std::uint64_t callback_;
};

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_UNSAID_WARNINGS_H_
