#include "backends/runtime/prepared_arg.h"

namespace framefuse {

PreparedArg Prepare(const ir::Arg& arg, const ir::OpArgument& schema) {
  PreparedArg p;
  switch (arg.kind) {
    case ir::Arg::Kind::kNone:
      if (schema.type == ir::ArgType::kTensor) p.constant = at::Tensor();
      break;
    case ir::Arg::Kind::kConstant:
      p.constant = arg.constant;
      break;
    case ir::Arg::Kind::kValue:
      p.kind = PreparedArg::Kind::kSlot;
      p.use.slot = arg.value;
      break;
    case ir::Arg::Kind::kValueList:
      p.kind = schema.type == ir::ArgType::kOptionalTensorList ? PreparedArg::Kind::kOptionalTensorList
                                                               : PreparedArg::Kind::kTensorList;
      for (ir::ValueId v : arg.values) p.uses.push_back({v, false});
      break;
    case ir::Arg::Kind::kDim:
      p.kind = PreparedArg::Kind::kDim;
      p.dims = arg.dims;
      break;
    case ir::Arg::Kind::kDimList:
      p.kind = PreparedArg::Kind::kDimList;
      p.dims = arg.dims;
      break;
  }
  return p;
}

}  // namespace framefuse
