// FxSizes: the symbolic sizes of an FX graph in its calls: what its callable is given for them, what sizes its results
// are to have. Invariant: immutable but for the sizes that were checked; thread-safe.
#ifndef FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_SIZES_H_
#define FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_SIZES_H_

#include <Python.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "backends/graph/graph.h"
#include "frame_eval/ref.h"

namespace framefuse {

class FxSizes {
 public:
  // `symbols`: those that the callable takes, by number. `graph`: what was recorded.
  FxSizes(std::vector<int> symbols, const std::shared_ptr<const ir::Graph>& graph);

  // Of one call: the numbers that the symbols are, then the tensors.
  class Arguments {
   public:
    Arguments(const FxSizes& sizes, absl::Span<const std::int64_t> symbols, absl::Span<PyObject* const> tensors);
    absl::Span<PyObject* const> all() const { return all_; }

   private:
    absl::InlinedVector<Ref, 4> numbers_;
    absl::InlinedVector<PyObject*, 8> all_;
  };
  std::vector<std::int64_t> Of(absl::Span<const ir::Dim> dims, absl::Span<const std::int64_t> symbols) const;
  // ir::CheckGuessed, once for each set of sizes.
  absl::Status Check(absl::Span<const std::int64_t> symbols) const;

 private:
  static constexpr std::size_t kMostChecked = 1024;

  std::vector<int> symbols_;
  ir::ExprTable expressions_;
  std::shared_ptr<const ir::Graph> guessed_;  // null: nothing in it was
  mutable std::mutex mutex_;
  mutable absl::flat_hash_set<std::vector<std::int64_t>> checked_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_SIZES_H_
