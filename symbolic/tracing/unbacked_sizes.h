// unbacked_sizes: sizes and numbers that follow from values of tensors (nonzero, x[mask], x.item()), recorded as
// symbols that the graph itself defines. The value that they have in this call is their hint. What the recording relies
// on about them is checked in each call as soon as the graph has computed them (ir::DeferredFacts). Invariant: a
// function that gives false or nothing recorded nothing. A size of 0 or 1, which operators treat in a way of its own,
// is never the hint.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_UNBACKED_SIZES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_UNBACKED_SIZES_H_

#include <optional>
#include <vector>

#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

// nonzero, unique, unique_consecutive, bincount, repeat_interleave, masked_select.
[[nodiscard]] bool RecordUnbacked(Recorder& recorder, const c10::OperatorHandle& handle, torch::jit::Stack* stack);
// index with boolean masks.
[[nodiscard]] bool RecordUnbackedIndex(Recorder& recorder, const c10::OperatorHandle& handle, torch::jit::Stack* stack);
// The elements of a tensor of integers or floats, one after another.
[[nodiscard]] std::optional<std::vector<ir::Dim>> UnbackedNumbers(Recorder& recorder, const at::Tensor& read);
// A tensor of one element is to be true, or false.
[[nodiscard]] bool RecordTruth(Recorder& recorder, const at::Tensor& read, bool truth);

// An operator without metadata to infer: what it returns, if anything, is what it writes.
[[nodiscard]] bool OnlyWrites(const ir::Op& op);
// Whether nobody knows yet if it takes arguments of such sizes, and it resizes none.
[[nodiscard]] bool IsCheckedByKernel(const ir::Op& op, Sizes& sizes, c10::ArrayRef<c10::IValue> args);
// Whether a tensor among them has a size that the graph computes.
[[nodiscard]] bool AnyIsUnbacked(Sizes& sizes, c10::ArrayRef<c10::IValue> args);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_UNBACKED_SIZES_H_
