// relied_sizes: operators whose results have sizes that depend on values, recorded with the sizes that they have now:
// where the values are of whole numbers that the recording may rely on (value_reads.h), a later call has the same ones.
// Invariant: a function that gives false or nothing recorded nothing and relies on nothing.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_RELIED_SIZES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_RELIED_SIZES_H_

#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

// The value itself, on the CPU. `values` may be null.
[[nodiscard]] std::optional<at::Tensor> RelyOnValue(ValueSource* values, const at::Tensor& fake);

// nonzero, unique …: all tensors that they take decide.
[[nodiscard]] bool RecordSized(Recorder& recorder, const c10::OperatorHandle& handle, torch::jit::Stack* stack);
// How many elements of a mask are true decides, and not what is selected from.
[[nodiscard]] bool RecordMaskedIndex(Recorder& recorder, const c10::OperatorHandle& handle, torch::jit::Stack* stack);
[[nodiscard]] bool RecordMaskedSelect(Recorder& recorder, const c10::OperatorHandle& handle, torch::jit::Stack* stack);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_RELIED_SIZES_H_
