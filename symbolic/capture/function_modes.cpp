#include "symbolic/capture/function_modes.h"

#include <ATen/PythonTorchFunctionTLS.h>

namespace framefuse {

using Stack = at::impl::PythonTorchFunctionTLS;

FunctionModes::FunctionModes() : length_at_start_(Stack::stack_len()) {}

void FunctionModes::Restore() {
  while (Stack::stack_len() > length_at_start_) Stack::pop_stack();
  open_ = 0;
}

}  // namespace framefuse
