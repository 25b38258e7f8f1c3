// CheckSetting: breaks the recording at an operator that goes by a setting which the program changed on the way (a
// default dtype, a backend's flag). A graph runs under one state, which is that of its first operators.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_CHECK_SETTING_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_CHECK_SETTING_H_

#include <ATen/core/stack.h>

#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

class Recorder;

// Where something was set (Surroundings::set_on_the_way).
void CheckSetting(Recorder& recorder, const OpTraits& traits, const torch::jit::Stack& stack);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_CHECK_SETTING_H_
