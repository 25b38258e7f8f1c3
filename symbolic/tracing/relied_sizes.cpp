#include "symbolic/tracing/relied_sizes.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstddef>
#include <vector>

namespace framefuse::tracing {
namespace {

using torch::jit::Stack;
using Values = std::vector<at::Tensor>;

at::Tensor Meta(c10::IntArrayRef sizes, c10::ScalarType type) {
  return at::empty(sizes, at::TensorOptions().dtype(type).device(at::kMeta));
}

at::Tensor CountsOfTrues(const Values& masks) {
  Values counts;
  for (const at::Tensor& m : masks) counts.push_back(at::count_nonzero(m));
  return at::stack(counts);
}

std::optional<std::vector<std::int64_t>> RelyOnCounts(Recorder& recorder, const Values& masks) {
  if (recorder.values() == nullptr) return std::nullopt;
  const std::optional<Values> values = recorder.values()->RelyOn(masks, {"torch.count_nonzero", CountsOfTrues});
  if (!values) return std::nullopt;
  const TlsScope off(nullptr);
  std::vector<std::int64_t> counts;
  for (const at::Tensor& m : *values) counts.push_back(at::count_nonzero(m).item<std::int64_t>());
  return counts;
}

// An operator's call with other tensors in some places.
struct CallOn {
  c10::OperatorHandle handle;
  Stack stack;
  std::vector<std::size_t> places;

  Stack With(const Values& tensors) const {
    Stack run = stack;
    for (std::size_t i = 0; i < places.size(); ++i) run[places[i]] = tensors[i];
    handle.callBoxed(&run);
    return run;
  }
};

at::Tensor SizesOf(const Stack& results) {
  std::vector<std::int64_t> sizes;
  for (const c10::IValue& v : results) {
    const at::Tensor& t = v.toTensor();
    sizes.push_back(t.dim());
    sizes.insert(sizes.end(), t.sizes().begin(), t.sizes().end());
  }
  return at::tensor(sizes, at::kLong);
}

}  // namespace

std::optional<at::Tensor> RelyOnValue(ValueSource* values, const at::Tensor& fake) {
  if (values == nullptr) return std::nullopt;
  const std::optional<Values> relied = values->RelyOn({fake}, {"", [](const Values& v) { return v[0]; }});
  if (!relied) return std::nullopt;
  const TlsScope off(nullptr);
  return relied->front().cpu();
}

bool RecordSized(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  if (recorder.values() == nullptr) return false;
  const OpTraits& traits = TraitsOf(handle);
  const auto count = static_cast<std::size_t>(traits.num_arguments);
  CallOn call{handle, Stack(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end()), {}};
  Values tensors;
  for (std::size_t i = 0; i < count; ++i) {
    if (!call.stack[i].isTensor() || !call.stack[i].toTensor().defined()) continue;
    call.places.push_back(i);
    tensors.push_back(call.stack[i].toTensor());
    call.stack[i] = c10::IValue();  // a guard keeps no fake alive
  }
  const Observation sizes{"sizes of torch." + handle.operator_name().name.substr(6),
                          [call](const Values& values) { return SizesOf(call.With(values)); }};
  const std::optional<Values> values = recorder.values()->RelyOn(tensors, sizes);
  if (!values) return false;
  Stack results;
  {
    const TlsScope off(nullptr);
    const c10::impl::ExcludeDispatchKeyGuard plain(KeysOffForMeta());
    results = call.With(*values);
  }
  recorder.RecordAs(traits, stack, results);
  return true;
}

bool RecordMaskedIndex(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  const at::Tensor self = (*stack)[stack->size() - 2].toTensor();
  Values masks;
  for (const c10::IValue& v : stack->back().toListRef()) {
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    if (AsFake(v.toTensor()) == nullptr) return false;
    if (v.toTensor().scalar_type() == c10::ScalarType::Byte) return false;  // torch warns of it
    if (v.toTensor().scalar_type() == c10::ScalarType::Bool) masks.push_back(v.toTensor());
  }
  if (AsFake(self) == nullptr) return false;
  // A mask's sizes are those of the dimensions that it stands for: eager's error is eager's to raise.
  std::int64_t dimension = 0;
  for (const c10::IValue& v : stack->back().toListRef()) {
    const bool is_mask = v.isTensor() && v.toTensor().defined() && v.toTensor().scalar_type() == c10::ScalarType::Bool;
    for (std::int64_t d = 0; is_mask && d < v.toTensor().dim(); ++d, ++dimension) {
      if (dimension >= self.dim() || self.sym_size(dimension) != v.toTensor().sym_size(d)) return false;
    }
    if (!is_mask) ++dimension;
    if (is_mask && v.toTensor().dim() == 0) return false;
  }
  const std::optional<std::vector<std::int64_t>> counts = RelyOnCounts(recorder, masks);
  if (!counts) return false;
  // To the operator a mask is a list of indices for each of its dimensions.
  c10::List<std::optional<at::Tensor>> indices;
  std::size_t next = 0;
  Stack results;
  {
    const TlsScope off(nullptr);
    const c10::impl::ExcludeDispatchKeyGuard plain(KeysOffForMeta());
    for (const c10::IValue& v : stack->back().toListRef()) {
      if (!v.isTensor() || !v.toTensor().defined()) {
        indices.push_back(std::nullopt);
      } else if (v.toTensor().scalar_type() == c10::ScalarType::Bool) {
        const std::int64_t count = (*counts)[next++];
        for (std::int64_t d = 0; d < v.toTensor().dim(); ++d) indices.push_back(Meta({count}, at::kLong));
      } else {
        indices.push_back(AsFake(v.toTensor())->Meta());
      }
    }
    results.emplace_back(at::index(AsFake(self)->Meta(), indices));
  }
  recorder.RecordAs(TraitsOf(handle), stack, results);
  return true;
}

bool RecordMaskedSelect(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  const at::Tensor self = (*stack)[stack->size() - 2].toTensor();
  const at::Tensor mask = stack->back().toTensor();
  if (AsFake(self) == nullptr || AsFake(mask) == nullptr || mask.scalar_type() != c10::ScalarType::Bool) return false;
  Dims together;
  if (!Broadcast(self.sym_sizes(), mask.sym_sizes(), &together)) return false;
  const std::optional<std::vector<std::int64_t>> counts = RelyOnCounts(recorder, {mask});
  if (!counts) return false;
  const auto sizes = at::infer_size_dimvector(self.sizes(), mask.sizes());
  Stack results;
  {
    const TlsScope off(nullptr);
    const c10::impl::ExcludeDispatchKeyGuard plain(KeysOffForMeta());
    const std::int64_t repeats = mask.numel() == 0 ? 0 : c10::multiply_integers(sizes) / mask.numel();
    results.emplace_back(Meta({counts->front() * repeats}, self.scalar_type()));
  }
  recorder.RecordAs(TraitsOf(handle), stack, results);
  return true;
}

}  // namespace framefuse::tracing
