// random_state: the generators that a graph draws from, so that what is dropped leaves them as they were.
#ifndef FRAMEFUSE_SYMBOLIC_EXECUTABLES_RANDOM_STATE_H_
#define FRAMEFUSE_SYMBOLIC_EXECUTABLES_RANDOM_STATE_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "backends/graph/graph.h"

namespace framefuse {

struct DrawnFrom {
  std::vector<c10::Device> devices;  // their default generators
  std::vector<at::Generator> given;
};

// What the graph's forward draws from: generators that it was given, and the default ones of devices, those of the
// results and of what is written.
DrawnFrom GeneratorsOf(const ir::Graph& graph);

// Generators as they are now: what fails before it has written anything runs again as Python, with the same numbers.
class RandomState {
 public:
  explicit RandomState(const DrawnFrom& from);
  void Restore();

 private:
  void Note(at::Generator generator);

  absl::InlinedVector<std::pair<at::Generator, at::Tensor>, 1> states_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EXECUTABLES_RANDOM_STATE_H_
