#include "backends/graph/unsaid_warnings.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <memory>

#include "backends/graph/operators.h"

namespace framefuse::ir {
namespace {

struct OfOperator final : at::ObserverContext {
  WarningsOfSizesUnsaid unsaid;
};

std::unique_ptr<at::ObserverContext> Enter(const at::RecordFunction&) { return std::make_unique<OfOperator>(); }

}  // namespace

bool IsWarningOfSizes(std::string_view words) {
  return words.find("(): degrees of freedom is <= 0. ") != std::string_view::npos;
}

bool MayWarnOfSizes(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& n) { return Has(n.op, OpFact::kWarnsOfSizes); });
}

void WarningsOfSizesUnsaid::Handler::process(const c10::Warning& warning) {
  if (!IsWarningOfSizes(warning.msg())) outer->process(warning);
}

WarningsOfSizesUnsaid::WarningsOfSizesUnsaid(bool wanted) {
  if (!wanted) return;
  handler_.outer = c10::WarningUtils::get_warning_handler();
  guard_.emplace(&handler_);
}

WarningsOfSizesUnsaidInPython::WarningsOfSizesUnsaidInPython()
    : callback_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(&Enter, nullptr).scopes({at::RecordScope::FUNCTION}).needsIds(false))) {}

WarningsOfSizesUnsaidInPython::~WarningsOfSizesUnsaidInPython() { at::removeCallback(callback_); }

}  // namespace framefuse::ir
