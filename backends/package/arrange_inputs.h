// arrange_inputs: a recorded graph's inputs in the order of a package: the call's arguments first, then weights by
// name. Invariant: nothing else of the graph changes; each of its inputs has a place.
#ifndef FRAMEFUSE_BACKENDS_PACKAGE_ARRANGE_INPUTS_H_
#define FRAMEFUSE_BACKENDS_PACKAGE_ARRANGE_INPUTS_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/graph/graph.h"

namespace framefuse {

struct PlacedInput {
  int from = -1;      // which input of the graph it was; -1: none, and the graph does not read it
  at::Tensor tensor;  // then this says what it is …
  std::vector<std::pair<int, int>> symbols;  // … and which of its sizes are symbols: dimension, number
  bool is_weight = false;
  std::string name;
};

// `returned`: places of inputs that the caller gets back as they are; they become user outputs behind the others.
absl::StatusOr<std::string> ArrangeInputs(std::string_view text, const std::vector<PlacedInput>& inputs,
                                          const std::vector<int>& returned);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_PACKAGE_ARRANGE_INPUTS_H_
