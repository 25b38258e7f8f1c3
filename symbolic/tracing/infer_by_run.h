// Metadata of operators of ATen's that no kernel describes, or that torch's describes wrongly: the CPU kernel runs
// once, on zeros, when the operator is recorded. Only where no values decide what comes out, and what draws random
// numbers draws them from a generator of the run's; never for operators of others, whose calls the program could count,
// and never on a device, whose memory tracing leaves alone.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_INFER_BY_RUN_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_INFER_BY_RUN_H_

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/Device.h>

#include <optional>

#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

class Recorder;

struct MetadataRun {
  torch::jit::Stack arguments, results;
};
// `device`: where the results are to be. Nothing: another way has to be taken.
std::optional<MetadataRun> RunForMetadata(Recorder& recorder, const OpTraits& traits, c10::ArrayRef<c10::IValue> args,
                                          c10::Device device);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_INFER_BY_RUN_H_
