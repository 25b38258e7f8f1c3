#include "symbolic/tracing/known_values.h"

#include <ATen/ops/full.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <vector>

#include "backends/graph/input_writes.h"
#include "backends/graph/operators.h"
#include "symbolic/tracing/value_slice.h"

namespace framefuse::tracing {
namespace {

// Whether numbers of at least 0 compare so with one that is not above it; nothing: it depends.
std::optional<bool> ComparesWith(ir::OpId comparison, double number) {
  if (ir::Is(comparison, ir::OpName::kLtScalar) && number <= 0) return false;
  if (ir::Is(comparison, ir::OpName::kGeScalar) && number <= 0) return true;
  if (ir::Is(comparison, ir::OpName::kLeScalar) && number < 0) return false;
  if (ir::Is(comparison, ir::OpName::kGtScalar) && number < 0) return true;
  return std::nullopt;
}

bool IsWritten(const ir::Graph& graph, ir::StorageId storage) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const ir::Node& n) { return ir::Writes(graph, n, storage); });
}

// What follows from the bounds of a draw: `torch.rand([]) < 0.0` is how a layer that is never dropped is asked for.
std::optional<bool> DecidedByBounds(const ir::Graph& graph, ir::ValueId v) {
  const std::vector<ir::NodeIndex> definitions = graph.Definitions();
  const auto maker_of = [&](ir::ValueId value) {
    const ir::NodeIndex node = definitions[static_cast<std::size_t>(value)];
    return node == ir::kNoNode ? nullptr : &graph.nodes[static_cast<std::size_t>(node)];
  };
  const ir::Node* compared = maker_of(v);
  if (compared == nullptr || compared->args.size() != 2 || compared->args[0].kind != ir::Arg::Kind::kValue ||
      compared->args[1].kind != ir::Arg::Kind::kConstant || !compared->args[1].constant.isScalar()) {
    return std::nullopt;
  }
  const c10::Scalar number = compared->args[1].constant.toScalar();
  if (number.isComplex()) return std::nullopt;
  const std::optional<bool> decided = ComparesWith(compared->op, number.toDouble());
  if (!decided) return std::nullopt;
  const ir::ValueId drawn = compared->args[0].value;
  const ir::Node* draw = maker_of(drawn);
  if (draw == nullptr || !ir::Has(draw->op, ir::OpFact::kUniformDraw) || IsWritten(graph, graph.value(drawn).storage) ||
      IsWritten(graph, graph.value(v).storage)) {
    return std::nullopt;
  }
  return decided;
}

}  // namespace

std::optional<at::Tensor> KnownValue(Recorder& recorder, const at::Tensor& fake) {
  const FakeImpl* impl = AsFake(fake);
  if (impl == nullptr || impl->recording() != recorder.id() || recorder.phase() != ir::Phase::kForward ||
      fake.is_conj() || fake.is_neg()) {
    return std::nullopt;
  }
  if (fake.sym_numel() == 1) {
    if (const std::optional<bool> decided = DecidedByBounds(recorder.graph(), impl->value())) {
      const TlsScope off(nullptr);
      const c10::impl::ExcludeDispatchKeyGuard plain(KeysOffForMeta());
      return at::full(fake.sizes(), *decided, at::TensorOptions(at::kBool));
    }
  }
  const std::optional<ValueSlice> slice = ValueSlice::Of(recorder.graph(), {impl->value()}, SliceLimits());
  if (!slice) return std::nullopt;
  const TlsScope off(nullptr);
  const c10::impl::ExcludeDispatchKeyGuard plain(KeysOffForMeta());
  try {
    std::optional<std::vector<at::Tensor>> values = slice->Run({});
    return values ? std::optional<at::Tensor>(values->front()) : std::nullopt;
  } catch (const c10::Error&) {  // eager raised it where the operator stands, not where its result is read
    return std::nullopt;
  }
}

}  // namespace framefuse::tracing
