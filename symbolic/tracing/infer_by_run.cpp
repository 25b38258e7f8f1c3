#include "symbolic/tracing/infer_by_run.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <string>

#include "backends/graph/operators.h"
#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/run_on_zeros.h"

namespace framefuse::tracing {
namespace {

// The CPU converts operands to their common type before it chooses the result's strides, the meta device does not.
bool IsConverted(const ir::Op& op, c10::ArrayRef<c10::IValue> args) {
  if (!op.is_pointwise() && !ir::Has(&op, ir::OpFact::kConverts)) return false;
  std::optional<c10::ScalarType> first;
  bool differ = false, dense = true;
  for (const c10::IValue& v : args) {
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    const at::Tensor& t = v.toTensor();
    differ = differ || (first.has_value() && *first != t.scalar_type()) || !c10::isFloatingType(t.scalar_type());
    first = t.scalar_type();
    dense = dense && IsNonOverlappingAndDense(t);
  }
  return differ && !dense;
}

// The run's zeros are written, and thrown away; a result that is one of them would be taken for a new tensor.
bool ReturnsWhatItWrites(const ir::Op& op) {
  if (!op.mutates()) return false;
  for (const ir::OpReturn& r : op.returns()) {
    if (r.written_argument >= 0) return true;
  }
  return op.returns().empty();
}

// Where it takes a generator; -1: it takes none.
int PlaceOfGenerator(const c10::OperatorHandle& handle) {
  return handle.schema().argumentIndexWithName("generator").value_or(-1);
}

bool IsOptionalTensorList(const c10::IValue& v) { return v.isOptionalTensorList(); }

}  // namespace

std::optional<MetadataRun> RunForMetadata(Recorder& recorder, const OpTraits& traits, c10::ArrayRef<c10::IValue> args,
                                          c10::Device device) {
  const c10::OperatorHandle& handle = traits.handle;
  if (traits.meta_source != MetaSource::kNone && !ir::Has(traits.op, ir::OpFact::kRunForMetadata) &&
      !IsConverted(*traits.op, args)) {
    return std::nullopt;
  }
  if (!ir::Has(traits.op, ir::OpFact::kAten) || ReturnsWhatItWrites(*traits.op) ||
      handle.hasTag(at::Tag::data_dependent_output) || traits.op->is_sized_by_values()) {
    return std::nullopt;
  }
  const bool draws = handle.hasTag(at::Tag::nondeterministic_seeded);
  const int generator = PlaceOfGenerator(handle);
  if (draws && (generator < 0 || traits.meta_source != MetaSource::kNone)) return std::nullopt;
  if (traits.returns_number || !device.is_cpu()) return std::nullopt;
  if (std::any_of(args.begin(), args.end(), IsOptionalTensorList)) return std::nullopt;
  torch::jit::Stack given(args.begin(), args.end());
  if (draws) given[static_cast<std::size_t>(generator)] = c10::IValue();
  std::optional<torch::jit::Stack> zeros = ZerosFor(given);
  if (!zeros.has_value()) return std::nullopt;
  if (draws) (*zeros)[static_cast<std::size_t>(generator)] = at::detail::createCPUGenerator();
  const c10::impl::ExcludeDispatchKeyGuard off(KeysOffForMeta());
  MetadataRun run{*zeros, *std::move(zeros)};
  try {
    handle.callBoxed(&run.results);
  } catch (const c10::Error& e) {
    // It may be about the zeros: their values are not the program's.
    recorder.Break(BreakKind::kNoShapeRule, traits,
                   "a run on zeros failed: " + std::string(e.what_without_backtrace()));
  }
  return run;
}

}  // namespace framefuse::tracing
