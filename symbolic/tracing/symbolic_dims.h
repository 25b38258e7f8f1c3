// SymbolicDims: which sizes and strides of an input a recording takes for symbolic.
// Invariant: none of both says that all are as they are now.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_SYMBOLIC_DIMS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_SYMBOLIC_DIMS_H_

#include <cstdint>

namespace framefuse::tracing {

// By bit: dimensions of an input whose size may be another one later, and those whose stride may, where it does not
// follow from the sizes. Sizes of 0 and 1 and strides of them stay what they are.
struct SymbolicDims {
  std::uint32_t sizes = 0, strides = 0;
  bool any() const { return (sizes | strides) != 0; }
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_SYMBOLIC_DIMS_H_
