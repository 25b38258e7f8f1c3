// What a graph writes to its inputs: its results, copied to them when it has run. On a GPU those that autograd does not
// see are copied together, in one kernel. Invariant: a copy counts up the input's version as eager's write did.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_WRITTEN_INPUTS_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_WRITTEN_INPUTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace framefuse {

struct Mutation {
  std::int32_t input = 0;
  std::int32_t output = 0;  // of the forward graph
  bool without_grad = false;
  bool uncounted = false;
  bool read = false;    // by the backward, as what was written
  bool renews = false;  // what was computed from it leads to the history that a view has behind the write
  std::string grad_fn;  // ir::Output's
};

void WriteBack(const Mutation& mutation, const at::Tensor& input, const at::Tensor& output);

// Of `mutations` those that can be copied together, and are worth it; their `written` is set.
void WriteBackTogether(absl::Span<const Mutation> mutations, absl::Span<const at::Tensor> inputs,
                       absl::Span<const at::Tensor> outputs, absl::Span<bool> written);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_WRITTEN_INPUTS_H_
