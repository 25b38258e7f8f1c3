// input_sizes: symbolic sizes as they come into a recording: those of inputs, and numbers that operators take.
// Invariant: strides that follow from symbolic sizes are said by expressions, others by symbols of their own or by
// number.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_INPUT_SIZES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_INPUT_SIZES_H_

#include <optional>
#include <utility>
#include <vector>

#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/symbolic_dims.h"

namespace framefuse::tracing {

struct InputSizes {
  std::vector<std::pair<int, bool>> symbols;     // dimensions in the order of their symbols; whether of the stride
  std::vector<std::pair<int, ir::Dim>> strides;  // by dimension
};

// `sizes` and `strides` are the tensor's, and become those that its fake is to have.
InputSizes MakeSizesSymbolic(Sizes& table, const at::Tensor& real, SymbolicDims symbolic, Dims* sizes, Dims* strides);

// What torch's parser of arguments made the number for, a SymInt or a SymFloat, to which its Python object refers;
// nothing: it is the number itself.
std::optional<ir::Dim> SizeThatStandsIn(Sizes& sizes, const at::Tensor& number);

// A tensor of no dimensions with the value of `size`, which an operator takes as it takes a Python number.
at::Tensor TensorOfSize(Recorder& recorder, ir::Dim size);

// A symbolic float among an operator's arguments.
ir::Arg OperandOf(Sizes& sizes, const c10::SymFloat& number);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_INPUT_SIZES_H_
