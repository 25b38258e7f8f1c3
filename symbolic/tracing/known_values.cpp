#include "symbolic/tracing/known_values.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace framefuse::tracing {
namespace {

using ir::ValueId;

constexpr std::size_t kMostNodes = 64;
constexpr std::int64_t kMostElements = 1 << 16;  // of one tensor

// Overloads of these, by name: no state, no generator, no memory that nobody set. Written forms are none of them.
constexpr std::string_view kDetermined[] = {"abs",
                                            "add",
                                            "alias",
                                            "all",
                                            "amax",
                                            "amin",
                                            "any",
                                            "arange",
                                            "argmax",
                                            "argmin",
                                            "bitwise_and",
                                            "bitwise_or",
                                            "bitwise_not",
                                            "cat",
                                            "ceil",
                                            "clamp",
                                            "clone",
                                            "cumsum",
                                            "detach",
                                            "div",
                                            "eq",
                                            "expand",
                                            "eye",
                                            "flip",
                                            "floor",
                                            "floor_divide",
                                            "full",
                                            "ge",
                                            "gt",
                                            "index_select",
                                            "le",
                                            "linspace",
                                            "logical_and",
                                            "logical_not",
                                            "logical_or",
                                            "lt",
                                            "max",
                                            "maximum",
                                            "mean",
                                            "min",
                                            "minimum",
                                            "mul",
                                            "ne",
                                            "neg",
                                            "ones",
                                            "permute",
                                            "pow",
                                            "prod",
                                            "remainder",
                                            "round",
                                            "rsub",
                                            "scalar_tensor",
                                            "select",
                                            "sign",
                                            "slice",
                                            "split",
                                            "split_with_sizes",
                                            "sqrt",
                                            "squeeze",
                                            "stack",
                                            "sub",
                                            "sum",
                                            "t",
                                            "_to_copy",
                                            "transpose",
                                            "tril_indices",
                                            "triu_indices",
                                            "trunc",
                                            "unbind",
                                            "unsqueeze",
                                            "_unsafe_view",
                                            "view",
                                            "where",
                                            "zeros"};

bool IsDetermined(std::string_view name) {
  static const auto* names = new absl::flat_hash_set<std::string_view>(std::begin(kDetermined), std::end(kDetermined));
  constexpr std::string_view kNamespace = "aten.";
  if (!name.starts_with(kNamespace)) return false;
  name.remove_prefix(kNamespace.size());
  return names->contains(name.substr(0, name.find('.')));
}

class Evaluation {
 public:
  explicit Evaluation(Recorder& recorder) : graph_(recorder.graph()) {
    for (const ir::ConstantTensor& c : graph_.constants) known_[c.value] = c.tensor;
    for (const ir::Node& n : graph_.nodes) NoteWrites(n);
  }

  std::optional<at::Tensor> Of(ValueId wanted) {
    std::vector<const ir::Node*> needed;
    if (!Collect(wanted, &needed)) return std::nullopt;
    for (const ir::Node* n : needed) {
      if (!Run(*n)) return std::nullopt;
    }
    return known_[wanted];
  }

 private:
  void NoteWrites(const ir::Node& n) {
    const auto& schema = n.op->arguments();
    for (std::size_t i = 0; n.op->mutates() && i < n.args.size(); ++i) {
      if (!schema[i].written) continue;
      ir::ForEachValue(n.args[i], [&](ValueId v) { written_.insert(graph_.value(v).storage); });
    }
  }

  bool IsSimple(ValueId v) const {
    const ir::Value& value = graph_.value(v);
    std::int64_t elements = 1;
    for (const ir::Dim& d : value.sizes) elements *= graph_.exprs.Hint(d);
    return value.kind == ir::ValueKind::kTensor && value.device.is_cpu() && elements <= kMostElements &&
           !written_.contains(value.storage);
  }

  // The nodes behind a value, in order.
  bool Collect(ValueId wanted, std::vector<const ir::Node*>* needed) {
    absl::flat_hash_set<ValueId> open;
    const auto need = [&](ValueId v) {
      if (!known_.contains(v)) open.insert(v);
      return IsSimple(v);
    };
    bool possible = need(wanted);
    for (std::size_t i = graph_.nodes.size(); i-- > 0 && !open.empty() && possible;) {
      const ir::Node& n = graph_.nodes[i];
      bool is_needed = false;
      for (const ValueId v : n.outputs) is_needed = (v != ir::kNoValue && open.erase(v) > 0) || is_needed;
      if (!is_needed) continue;
      possible = IsDetermined(n.op->name()) && !n.op->mutates() && needed->size() < kMostNodes;
      ir::ForEachUse(n, [&](ValueId v) { possible = need(v) && possible; });
      needed->insert(needed->begin(), &n);
    }
    return possible && open.empty();  // what is left is an input
  }

  bool Run(const ir::Node& n) {
    torch::jit::Stack stack;
    for (std::size_t i = 0; i < n.args.size(); ++i) {
      if (!PushArgument(n.args[i], n.op->arguments()[i].type, &stack)) return false;
    }
    n.op->handle().callBoxed(&stack);
    std::size_t next = 0;
    const auto take = [&](const at::Tensor& t) {
      if (next < n.outputs.size() && n.outputs[next] != ir::kNoValue) known_[n.outputs[next]] = t;
      ++next;
    };
    for (const c10::IValue& v : stack) {
      if (v.isTensor()) {
        take(v.toTensor());
      } else if (v.isTensorList()) {
        for (const at::Tensor& t : v.toTensorVector()) take(t);
      } else {
        return false;
      }
    }
    return next == n.outputs.size();
  }

  bool PushArgument(const ir::Arg& arg, ir::ArgType type, torch::jit::Stack* stack) const {
    switch (arg.kind) {
      case ir::Arg::Kind::kNone:
        stack->emplace_back();
        return true;
      case ir::Arg::Kind::kValue:
        stack->emplace_back(known_.at(arg.value));
        return true;
      case ir::Arg::Kind::kConstant:
        stack->push_back(arg.constant);
        return true;
      case ir::Arg::Kind::kValueList: {
        c10::List<at::Tensor> list;
        for (const ValueId v : arg.values) {
          if (v == ir::kNoValue) return false;
          list.push_back(known_.at(v));
        }
        stack->emplace_back(std::move(list));
        return type == ir::ArgType::kTensorList;
      }
      default:
        return false;  // sizes that differ from call to call
    }
  }

  const ir::Graph& graph_;
  absl::flat_hash_map<ValueId, at::Tensor> known_;
  absl::flat_hash_set<ir::StorageId> written_;
};

}  // namespace

std::optional<at::Tensor> KnownValue(Recorder& recorder, const at::Tensor& fake) {
  const FakeImpl* impl = AsFake(fake);
  if (impl == nullptr || impl->recording() != recorder.id() || recorder.phase != ir::Phase::kForward ||
      fake.is_conj() || fake.is_neg()) {
    return std::nullopt;
  }
  const TlsScope off(nullptr);
  const c10::impl::ExcludeDispatchKeyGuard plain(KeysOffForMeta());
  try {
    return Evaluation(recorder).Of(impl->value());
  } catch (const c10::Error&) {  // eager raised it where the operator stands, not where its result is read
    return std::nullopt;
  }
}

}  // namespace framefuse::tracing
