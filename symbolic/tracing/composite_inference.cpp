#include "symbolic/tracing/composite_inference.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <utility>
#include <vector>

#include "symbolic/tracing/plain_numbers.h"
#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/results_into_arguments.h"

namespace framefuse::tracing {
namespace {

struct DropNodes {
  std::vector<ir::Node>& nodes;
  std::size_t size;
  ir::ValueId& first_value;
  ir::ValueId outer_first_value;
  ~DropNodes() {
    nodes.resize(size);
    first_value = outer_first_value;
  }
};

// The fakes that are written and must keep their sizes, with what each is before.
std::vector<std::pair<const FakeImpl*, ir::ValueId>> Written(Recorder& recorder, const ir::Op& op,
                                                             c10::ArrayRef<c10::IValue> args, ir::ValueId end) {
  std::vector<std::pair<const FakeImpl*, ir::ValueId>> written;
  const auto add = [&](const at::Tensor& t) {
    const FakeImpl* fake = AsFake(t);
    if (fake != nullptr && fake->value() < end && !IsNewAndEmpty(recorder, t))
      written.emplace_back(fake, fake->value());
  };
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!op.arguments()[i].written) continue;
    if (args[i].isTensor()) add(args[i].toTensor());
    if (!args[i].isTensorList()) continue;
    for (const c10::IValue& e : args[i].toListRef()) add(e.toTensor());
  }
  return written;
}

bool IsAs(const Recorder& recorder, c10::SymIntArrayRef numbers, const std::vector<ir::Dim>& dims) {
  if (numbers.size() != dims.size()) return false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (recorder.ToDim(numbers[i]) != dims[i]) return false;
  }
  return true;
}

}  // namespace

torch::jit::Stack CompositeInference::ResultsOf(Recorder& recorder, const OpTraits& traits,
                                                c10::ArrayRef<c10::IValue> args) {
  ir::Graph& graph = recorder.graph();
  const DropNodes drop{graph.nodes, graph.nodes.size(), first_value_, first_value_};
  if (first_value_ < 0) first_value_ = static_cast<ir::ValueId>(graph.values.size());
  torch::jit::Stack results(args.begin(), args.end());
  const auto written = Written(recorder, *traits.op, args, first_value_);
  const auto check = [&] {
    for (const auto& [fake, value] : written) {
      const ir::Value& before = graph.value(value);
      if (fake->value() == value && IsAs(recorder, fake->sym_sizes(), before.sizes) &&
          IsAs(recorder, fake->sym_strides(), before.strides)) {
        continue;
      }
      recorder.Break(BreakKind::kMetadataMutation, traits, "an argument is resized");
    }
  };
  try {
    c10::impl::ExcludeDispatchKeyGuard off(KeysOffForMeta() - c10::DispatchKeySet(c10::DispatchKey::Fake));
    CallComposite(traits.meta, traits, graph, &results);
  } catch (...) {
    check();
    throw;
  }
  check();
  return results;
}

}  // namespace framefuse::tracing
