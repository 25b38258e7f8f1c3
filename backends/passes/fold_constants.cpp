// Runs nodes of constants alone when the graph is compiled.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <utility>

#include "backends/graph/operators.h"
#include "backends/graph/unsaid_warnings.h"
#include "backends/passes/aliases.h"
#include "backends/passes/pass.h"
#include "common/index.h"

namespace framefuse {
namespace {

constexpr std::int64_t kMaxElements = 64;

// Runs the node on the constants; false if torch refuses, which it will then do at run time too.
bool Evaluate(const ir::Node& n, const std::vector<at::Tensor>& constants, at::Tensor* result) {
  torch::jit::Stack stack;
  for (std::size_t a = 0; a < n.args.size(); ++a) {
    const ir::Arg& arg = n.args[a];
    if (arg.kind == ir::Arg::Kind::kValue) {
      stack.emplace_back(constants[At(arg.value)]);
    } else {
      stack.push_back(arg.constant);
    }
  }
  try {
    const ir::WarningsOfSizesUnsaid unsaid;
    at::AutoDispatchBelowADInplaceOrView below;
    n.op->handle().callBoxed(stack);
  } catch (const std::exception&) {
    return false;
  }
  *result = stack[0].toTensor();
  return result->defined();
}

bool IsSmallOnCpu(const ir::Value& v) {
  if (v.kind != ir::ValueKind::kTensor || !v.device.is_cpu() || v.layout != c10::Layout::Strided) return false;
  std::int64_t elements = 1;
  for (const ir::Dim& d : v.sizes) {
    if (d.is_symbolic()) return false;
    elements *= d.constant();
  }
  return elements <= kMaxElements;
}

}  // namespace

absl::StatusOr<bool> FoldConstants(ir::Graph& g) {
  if (!g.functional) return false;
  Aliases aliases(g);
  std::vector<at::Tensor> constants(g.values.size());
  for (const ir::ConstantTensor& c : g.constants) {
    if (c.tensor.device().is_cpu()) constants[At(c.value)] = c.tensor;
  }
  std::vector<ir::Node> nodes;
  nodes.reserve(g.nodes.size());
  for (ir::Node& n : g.nodes) {
    bool foldable = !n.op->is_random() && !n.op->has_side_effect() && n.list_sizes.empty() && n.outputs.size() == 1 &&
                    n.outputs[0] != ir::kNoValue && !ir::Has(n.op, ir::OpFact::kMaybeUnset);
    foldable = foldable && IsSmallOnCpu(g.value(n.outputs[0])) && !aliases.Escapes(n.outputs[0]);
    for (const ir::Arg& a : n.args) {
      bool plain =
          a.kind == ir::Arg::Kind::kNone || a.kind == ir::Arg::Kind::kConstant || a.kind == ir::Arg::Kind::kValue;
      foldable = foldable && plain;
    }
    ir::ForEachUse(n, [&](ir::ValueId v) { foldable = foldable && constants[At(v)].defined(); });
    at::Tensor result;
    if (foldable && Evaluate(n, constants, &result)) {
      bool of_formula = n.phase == ir::Phase::kBackward;
      ir::ForEachUse(n, [&](ir::ValueId v) { of_formula = of_formula && g.value(v).of_formula; });
      g.value(n.outputs[0]).of_formula = of_formula;
      if (g.value(n.outputs[0]).wrapped_number) result.unsafeGetTensorImpl()->set_wrapped_number(true);
      constants[At(n.outputs[0])] = result;
      g.constants.push_back({n.outputs[0], std::move(result)});
    } else {
      nodes.push_back(std::move(n));
    }
  }
  bool changed = nodes.size() != g.nodes.size();
  g.nodes = std::move(nodes);
  return changed;
}

}  // namespace framefuse
