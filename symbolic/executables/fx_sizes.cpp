#include "symbolic/executables/fx_sizes.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "backends/graph/sized_graph.h"
#include "common/status.h"

namespace framefuse {

FxSizes::FxSizes(std::vector<int> symbols, const std::shared_ptr<const ir::Graph>& graph)
    : symbols_(std::move(symbols)), expressions_(graph->exprs) {
  const bool guessed = absl::c_any_of(graph->nodes, [](const ir::Node& n) { return n.guessed; });
  if (guessed) guessed_ = graph;
}

FxSizes::Arguments::Arguments(const FxSizes& sizes, absl::Span<const std::int64_t> symbols,
                              absl::Span<PyObject* const> tensors) {
  for (const int s : sizes.symbols_) {
    numbers_.push_back(Ref::Steal(PyLong_FromLongLong(symbols[static_cast<std::size_t>(s)])));
    all_.push_back(numbers_.back().get());
  }
  all_.insert(all_.end(), tensors.begin(), tensors.end());
}

std::vector<std::int64_t> FxSizes::Of(absl::Span<const ir::Dim> dims, absl::Span<const std::int64_t> symbols) const {
  std::vector<std::int64_t> sizes;
  sizes.reserve(dims.size());
  for (const ir::Dim d : dims) sizes.push_back(expressions_.Evaluate(d, symbols));
  return sizes;
}

absl::Status FxSizes::Check(absl::Span<const std::int64_t> symbols) const {
  if (guessed_ == nullptr) return absl::OkStatus();
  std::vector<std::int64_t> sizes(symbols.begin(), symbols.end());
  {
    const std::lock_guard lock(mutex_);
    if (checked_.contains(sizes)) return absl::OkStatus();
  }
  FF_RETURN_IF_ERROR(ir::CheckGuessed(ir::WithSizes(*guessed_, symbols)));
  const std::lock_guard lock(mutex_);
  if (checked_.size() == kMostChecked) checked_.clear();
  checked_.insert(std::move(sizes));
  return absl::OkStatus();
}

}  // namespace framefuse
