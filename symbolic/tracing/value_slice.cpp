#include "symbolic/tracing/value_slice.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace framefuse::tracing {
namespace {

using ir::ValueId;
using Values = absl::flat_hash_map<ValueId, at::Tensor>;

constexpr std::string_view kNamespace = "aten.";

// Overloads of these, by name: no state, no generator, no memory that nobody set. Written forms are none of them.
constexpr const char* kDetermined =
    "abs add alias all amax amin aminmax any arange argmax argmin argsort bincount bitwise_and bitwise_or bitwise_not "
    "bitwise_xor "
    "bucketize cat ceil clamp clamp_max clamp_min clone constant_pad_nd count_nonzero cumprod cumsum detach diagonal "
    "div "
    "eq expand eye flip floor floor_divide full full_like gather ge gt index index_select isin le linspace logical_and "
    "logical_not logical_or logical_xor lt masked_select max maximum mean min minimum mul ne neg nonzero ones "
    "ones_like permute pow prod "
    "remainder repeat repeat_interleave _reshape_alias roll round rsub scalar_tensor searchsorted select sign slice "
    "sort split "
    "split_with_sizes sqrt squeeze stack sub sum t _to_copy transpose tril tril_indices triu triu_indices trunc unbind "
    "unfold unique_consecutive unique_dim _unique2 unsqueeze _unsafe_view view where zeros zeros_like";

bool IsDetermined(std::string_view name) {
  static const auto* names = new absl::flat_hash_set<std::string>(absl::StrSplit(kDetermined, ' '));
  if (!name.starts_with(kNamespace)) return false;
  name.remove_prefix(kNamespace.size());
  return names->contains(std::string(name.substr(0, name.find('.'))));
}

// Where a graph's values are made and its memory is written.
class Writes {
 public:
  explicit Writes(const ir::Graph& graph) : graph_(graph) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) Note(graph.nodes[i], i);
  }
  // Whether something wrote the memory of `v` after it was made and before node `reader`.
  bool IsWrittenBefore(ValueId v, std::size_t reader) const {
    const auto writers = writers_.find(graph_.value(v).storage);
    if (writers == writers_.end()) return false;
    const auto maker = makers_.find(v);
    return std::any_of(writers->second.begin(), writers->second.end(), [&](std::size_t writer) {
      return writer < reader && (maker == makers_.end() || writer > maker->second);
    });
  }

 private:
  void Note(const ir::Node& n, std::size_t i) {
    for (const ValueId v : n.outputs) makers_[v] = i;
    const auto& schema = n.op->arguments();
    for (std::size_t a = 0; n.op->mutates() && a < n.args.size(); ++a) {
      if (!schema[a].written) continue;
      ir::ForEachValue(n.args[a], [&](ValueId v) { writers_[graph_.value(v).storage].push_back(i); });
    }
  }

  const ir::Graph& graph_;
  absl::flat_hash_map<ir::StorageId, std::vector<std::size_t>> writers_;
  absl::flat_hash_map<ValueId, std::size_t> makers_;
};

bool PushArgument(const ir::Arg& arg, ir::ArgType type, const Values& values, torch::jit::Stack* stack) {
  switch (arg.kind) {
    case ir::Arg::Kind::kNone:
      stack->emplace_back();
      return true;
    case ir::Arg::Kind::kValue:
      stack->emplace_back(values.at(arg.value));
      return true;
    case ir::Arg::Kind::kConstant:
      stack->push_back(arg.constant);
      return true;
    case ir::Arg::Kind::kValueList: {
      if (type == ir::ArgType::kOptionalTensorList) {
        c10::List<std::optional<at::Tensor>> list;
        for (const ValueId v : arg.values) {
          list.push_back(v == ir::kNoValue ? std::nullopt : std::optional<at::Tensor>(values.at(v)));
        }
        stack->emplace_back(std::move(list));
        return true;
      }
      c10::List<at::Tensor> list;
      for (const ValueId v : arg.values) {
        if (v == ir::kNoValue) return false;
        list.push_back(values.at(v));
      }
      stack->emplace_back(std::move(list));
      return type == ir::ArgType::kTensorList;
    }
    case ir::Arg::Kind::kDim:
    case ir::Arg::Kind::kDimList:
      return false;  // sizes that differ from call to call
  }
  return false;
}

bool RunNode(const ir::Node& n, Values* values) {
  torch::jit::Stack stack;
  for (std::size_t i = 0; i < n.args.size(); ++i) {
    if (!PushArgument(n.args[i], n.op->arguments()[i].type, *values, &stack)) return false;
  }
  n.op->handle().callBoxed(&stack);
  std::size_t next = 0;
  const auto take = [&](const at::Tensor& t) {
    if (next < n.outputs.size() && n.outputs[next] != ir::kNoValue) (*values)[n.outputs[next]] = t;
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

std::string TextOf(const c10::IValue& constant) {
  std::ostringstream text;
  text << constant;
  return text.str();
}

}  // namespace

std::optional<ValueSlice> ValueSlice::Of(const ir::Graph& graph, const std::vector<ValueId>& wanted,
                                         const SliceLimits& limits) {
  ValueSlice slice;
  slice.wanted_ = wanted;
  Values constants;
  for (const ir::ConstantTensor& c : graph.constants) constants[c.value] = c.tensor;
  const Writes writes(graph);
  absl::flat_hash_set<ValueId> open;
  const auto need = [&](ValueId v, std::size_t reader) {
    const ir::Value& value = graph.value(v);
    std::int64_t elements = 1;
    for (const ir::Dim& d : value.sizes) elements *= graph.exprs.Hint(d);
    if (auto it = constants.find(v); it != constants.end()) {
      slice.constants_.insert(*it);
    } else {
      open.insert(v);
    }
    return value.kind == ir::ValueKind::kTensor && (value.device.is_cpu() || !limits.on_cpu) &&
           elements <= limits.most_elements && !writes.IsWrittenBefore(v, reader);
  };
  bool possible = std::all_of(wanted.begin(), wanted.end(), [&](ValueId v) { return need(v, graph.nodes.size()); });
  for (std::size_t i = graph.nodes.size(); i-- > 0 && !open.empty() && possible;) {
    const ir::Node& n = graph.nodes[i];
    bool is_needed = false;
    for (const ValueId v : n.outputs) is_needed = (v != ir::kNoValue && open.erase(v) > 0) || is_needed;
    if (!is_needed) continue;
    possible = IsDetermined(n.op->name()) && !n.op->mutates() && slice.nodes_.size() < limits.most_nodes;
    ir::ForEachUse(n, [&](ValueId v) { possible = need(v, i) && possible; });
    slice.nodes_.push_back(n);
  }
  if (!possible) return std::nullopt;
  std::reverse(slice.nodes_.begin(), slice.nodes_.end());
  slice.inputs_.assign(open.begin(), open.end());  // no node makes them
  std::sort(slice.inputs_.begin(), slice.inputs_.end());
  const auto takes = [&](ValueId v) { return limits.takes_input && limits.takes_input(v); };
  if (!std::all_of(slice.inputs_.begin(), slice.inputs_.end(), takes)) return std::nullopt;
  return slice;
}

std::optional<std::vector<at::Tensor>> ValueSlice::Run(absl::Span<const at::Tensor> inputs) const {
  Values values = constants_;
  for (std::size_t i = 0; i < inputs_.size(); ++i) values[inputs_[i]] = inputs[i];
  for (const ir::Node& n : nodes_) {
    if (!RunNode(n, &values)) return std::nullopt;
  }
  std::vector<at::Tensor> results;
  for (ValueId v : wanted_) results.push_back(values.at(v));
  return results;
}

std::string ValueSlice::Expression(std::size_t i, absl::Span<const std::string> names) const {
  absl::flat_hash_map<ValueId, std::string> texts;
  for (const auto& [v, tensor] : constants_) {
    texts[v] = tensor.numel() == 1 && tensor.is_cpu() ? TextOf(tensor.item()) : "torch.tensor(...)";
  }
  for (std::size_t k = 0; k < inputs_.size(); ++k) texts[inputs_[k]] = names[k];
  for (const ir::Node& n : nodes_) {
    std::vector<std::string> args;
    for (const ir::Arg& arg : n.args) {
      if (arg.kind == ir::Arg::Kind::kValue) args.push_back(texts[arg.value]);
      if (arg.kind == ir::Arg::Kind::kConstant) args.push_back(TextOf(arg.constant));
      if (arg.kind != ir::Arg::Kind::kValueList) continue;
      args.push_back(absl::StrCat(
          "[", absl::StrJoin(arg.values, ", ", [&](std::string* out, ValueId v) { out->append(texts[v]); }), "]"));
    }
    const std::string& name = n.op->name();
    const std::size_t overload = name.find('.', kNamespace.size());
    const std::string function = name.substr(kNamespace.size(), overload - kNamespace.size());
    const std::string call = absl::StrCat("torch.", function, "(", absl::StrJoin(args, ", "), ")");
    for (std::size_t k = 0; k < n.outputs.size(); ++k) {
      texts[n.outputs[k]] = n.outputs.size() == 1 ? call : absl::StrCat(call, "[", k, "]");
    }
  }
  return texts[wanted_[i]];
}

}  // namespace framefuse::tracing
