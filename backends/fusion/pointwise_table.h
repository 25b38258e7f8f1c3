// The rows of the pointwise table; see pointwise.h.
#ifndef FRAMEFUSE_BACKENDS_FUSION_POINTWISE_TABLE_H_
#define FRAMEFUSE_BACKENDS_FUSION_POINTWISE_TABLE_H_

#include "backends/fusion/pointwise.h"

namespace framefuse::fusion {

using PointwiseRow = kernel_ir::ValueId (*)(PointwiseEmitter& e);

// Null if the operator has no row.
PointwiseRow FindPointwiseRow(ir::OpId op);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_POINTWISE_TABLE_H_
