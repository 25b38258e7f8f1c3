// PreparedArg: an argument of a node as AtenSequence hands it to the operator: a constant, values by slot, or sizes
// that each call has otherwise.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_PREPARED_ARG_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_PREPARED_ARG_H_

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <vector>

#include "backends/graph/graph.h"

namespace framefuse {

inline constexpr std::int32_t kNoSlot = -1;

// A value's slot as an argument; `last` moves it out of the frame.
struct ArgSlot {
  std::int32_t slot = kNoSlot;
  bool last = false;
};

struct PreparedArg {
  enum class Kind : std::uint8_t { kConstant, kSlot, kTensorList, kOptionalTensorList, kDim, kDimList };
  Kind kind = Kind::kConstant;
  c10::IValue constant;
  ArgSlot use;
  std::vector<ArgSlot> uses;
  std::vector<ir::Dim> dims;
};

PreparedArg Prepare(const ir::Arg& arg, const ir::OpArgument& schema);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_PREPARED_ARG_H_
