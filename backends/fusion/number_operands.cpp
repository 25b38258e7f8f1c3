#include "backends/fusion/number_operands.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "backends/graph/op_forms.h"
#include "backends/graph/operators.h"

namespace framefuse::fusion {
namespace {

using ir::Arg;
using ir::Node;
using ir::OpName;

class Rewriter {
 public:
  explicit Rewriter(ir::Graph& g) : g_(g) {}

  bool Run() {
    bool changed = false;
    for (Node& n : g_.nodes) {
      if (ir::Is(n.op, ir::OpName::kScalarTensor) && n.args[0].kind == Arg::Kind::kDim &&
          g_.value(n.outputs[0]).wrapped_number) {
        numbers_.emplace(n.outputs[0], n.args[0].dims[0]);
      } else if (!numbers_.empty()) {
        changed = Rewrite(n) || changed;
      }
    }
    return changed;
  }

 private:
  const ir::Dim* NumberAt(const Node& n, std::size_t a) const {
    if (n.args.size() <= a || n.args[a].kind != Arg::Kind::kValue) return nullptr;
    const auto it = numbers_.find(n.args[a].value);
    return it == numbers_.end() ? nullptr : &it->second;
  }

  static bool IsOne(const Arg& a) {
    return a.kind == Arg::Kind::kConstant && a.constant.isScalar() && a.constant.toScalar().equal(1);
  }

  bool Become(Node& n, ir::OpId op) {
    if (op == nullptr || op->arguments().size() != n.args.size()) return false;
    n.op = op;
    return true;
  }

  bool Rewrite(Node& n) {
    const ir::Dim* second = NumberAt(n, 1);
    if (second != nullptr && NumberAt(n, 0) == nullptr) {
      if (!Become(n, ir::NumberForm(n.op))) return false;
      n.args[1] = Arg::OfDim(*second);
      return true;
    }
    const ir::Dim* first = NumberAt(n, 0);
    if (first == nullptr || second != nullptr) return false;
    const bool adds = ir::Is(n.op, OpName::kAddTensor) && IsOne(n.args[2]);
    const bool commutes = adds || ir::Is(n.op, OpName::kMulTensor);
    if ((!commutes && !ir::Is(n.op, OpName::kSubTensor)) || n.args[1].kind != Arg::Kind::kValue) return false;
    const Arg number = Arg::OfDim(*first);
    if (!Become(n, commutes ? ir::NumberForm(n.op) : ir::RequireOp(OpName::kRsubScalar))) return false;
    n.args[0] = n.args[1];
    n.args[1] = number;
    return true;
  }

  ir::Graph& g_;
  absl::flat_hash_map<ir::ValueId, ir::Dim> numbers_;
};

}  // namespace

absl::StatusOr<bool> UseNumberOperands(ir::Graph& graph) { return Rewriter(graph).Run(); }

}  // namespace framefuse::fusion
