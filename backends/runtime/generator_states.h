// The states of the default generators of some devices, one after the other in one tensor of bytes on the CPU.
// A device is given by its CUDA index, the CPU by -1. Who reads and sets them owns the order in which that happens.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_GENERATOR_STATES_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_GENERATOR_STATES_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace framefuse {

std::int64_t SizeOfStates(c10::IntArrayRef devices);
at::Tensor StatesOfGenerators(c10::IntArrayRef devices);
void SetGenerators(c10::IntArrayRef devices, const at::Tensor& states);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_GENERATOR_STATES_H_
