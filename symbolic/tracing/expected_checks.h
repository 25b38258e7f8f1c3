// expected_checks: torch's own code asks for the truth of a tensor, to raise an error otherwise. Who runs the graph may
// look at it behind the graph, and drop all that was done where it is otherwise.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_EXPECTED_CHECKS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_EXPECTED_CHECKS_H_

#include <ATen/core/Tensor.h>

namespace framefuse::tracing {

class Recorder;

// A ValueReader that can do so is one of these, too.
class CheckReader {
 public:
  virtual ~CheckReader() = default;
  // Whether a later run is dropped where the truth is another.
  virtual bool ExpectOfTorch(const at::Tensor& fake, bool truth) = 0;
};

// Whether somebody does.
[[nodiscard]] bool ExpectOfTorch(const Recorder& recorder, const at::Tensor& fake, bool truth);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_EXPECTED_CHECKS_H_
