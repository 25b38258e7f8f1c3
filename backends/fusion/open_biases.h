// OpenBiases: addmm(bias, a, b) of full precision whose result only kernels read, through views or not, is mm(a, b),
// and the bias is added by the kernel that reads it. There the sum costs nothing, and cuBLAS has all its kernels to
// choose from: with a bias it takes one that is 1.25 times as slow for [6304, 3072] × [3072, 768] in f32 (H200). Halves
// keep their addmm. A convolution's bias, which cuDNN leaves to a kernel of its own, is added so in all types; its
// gradient is likewise summed by a kernel.
#ifndef FRAMEFUSE_BACKENDS_FUSION_OPEN_BIASES_H_
#define FRAMEFUSE_BACKENDS_FUSION_OPEN_BIASES_H_

#include "absl/status/statusor.h"
#include "backends/graph/graph.h"

namespace framefuse::fusion {

// A pass over a functional graph; nothing if config.rewrite_for_device is off.
absl::StatusOr<bool> OpenBiases(ir::Graph& graph);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_OPEN_BIASES_H_
