// input_sizes: symbolic sizes as they come into a recording: those of inputs, and numbers that operators take.
// Invariant: strides that follow from symbolic sizes are said by expressions, any other by number.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_INPUT_SIZES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_INPUT_SIZES_H_

#include <optional>
#include <utility>
#include <vector>

#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

struct InputSizes {
  std::vector<int> symbols;                      // dimensions, in the order of their symbols
  std::vector<std::pair<int, ir::Dim>> strides;  // by dimension
};

// `symbolic`: dimensions by bit. `sizes` and `strides` are the tensor's, and become those that its fake is to have.
InputSizes MakeSizesSymbolic(Sizes& table, const at::Tensor& real, std::uint32_t symbolic, Dims* sizes, Dims* strides);

// What torch's parser of arguments made the number for, a SymInt or a SymFloat, to which its Python object refers;
// nothing: it is the number itself.
std::optional<ir::Dim> SizeThatStandsIn(Sizes& sizes, const at::Tensor& number);

// A tensor of no dimensions with the value of `size`, which an operator takes as it takes a Python number.
at::Tensor TensorOfSize(Recorder& recorder, ir::Dim size);

// A symbolic float among an operator's arguments.
ir::Arg OperandOf(Sizes& sizes, const c10::SymFloat& number);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_INPUT_SIZES_H_
