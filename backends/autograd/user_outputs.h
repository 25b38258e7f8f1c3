// UserOutput: a result of a plan as its caller gets it: an output of the forward graph, an input, or a view of one of
// these, which is made again when the graph has run.
// Invariant: a view that is made again requires grad, has a history and counts its versions as the recorded one.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_USER_OUTPUTS_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_USER_OUTPUTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "backends/autograd/output_history.h"
#include "backends/graph/graph.h"
#include "backends/runtime/output_views.h"

namespace framefuse {

struct UserOutput {
  std::int32_t output = 0;  // of the forward graph
  ir::OutputAlias alias = ir::OutputAlias::kFresh;
  std::int32_t alias_of = -1;  // input, or output of the forward graph
  bool requires_grad = false;
  bool without_grad = false;
  bool detached = false;
  bool own_version = false;
  bool defined = true;
  bool renewed = false;  // its history was made again after a write of its memory, by another way than the view's
  std::int32_t version = 0;
  ViewRecipe recipe;
};

UserOutput PlannedAs(const ir::Output& o, std::int32_t output);
at::Tensor MakeView(const UserOutput& u, const at::Tensor& base, absl::Span<const std::int64_t> symbols,
                    ListsOfViews* lists);
// No inference tensor counts versions.
void SetVersion(const at::Tensor& t, std::int32_t version);

// Views to which a pass comes by a node of torch's own. `forward_output`: of each output of the joint graph. Views of
// inputs that the graph writes are not among them: their history follows from the write's.
std::vector<OutputHistory::View> ViewsInTurn(absl::Span<const UserOutput> outputs,
                                             const std::vector<std::int32_t>& forward_output, const ir::Graph& joint);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_USER_OUTPUTS_H_
