// PadsInFormat: paddings by reflection and replication, and their backwards, whose results have the memory format of
// the tensor that was padded on a CPU. torch's kernels for metadata say that they are contiguous. Invariant: they are
// the operators that take a tensor and a padding, or these and a gradient, and nothing else.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_FORMAT_OF_PADDING_H_
#define FRAMEFUSE_BACKENDS_GRAPH_FORMAT_OF_PADDING_H_

#include "backends/graph/op.h"

namespace framefuse::ir {

[[nodiscard]] bool PadsInFormat(OpId op);

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_FORMAT_OF_PADDING_H_
