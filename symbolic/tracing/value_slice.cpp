#include "symbolic/tracing/value_slice.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <sstream>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "backends/graph/boxed_call.h"
#include "backends/graph/operators.h"
#include "backends/graph/unsaid_warnings.h"

namespace framefuse::tracing {
namespace {

using ir::ValueId;
using Values = absl::flat_hash_map<ValueId, at::Tensor>;

bool IsUnset(const ir::Op& op) { return ir::Has(&op, ir::OpFact::kUnset); }

// A write is one of a form that is not resized: no `out=`.
bool IsDetermined(const ir::Op& op) {
  if (op.mutates()) return ir::Has(&op, ir::OpFact::kDeterminedWrite);
  return ir::Has(&op, ir::OpFact::kDetermined) || IsUnset(op);
}

// Where a graph's values are made and its memory is written.
class Memory {
 public:
  // An input that nothing uses yet changes nothing, whose memory it has as well.
  Memory(const ir::Graph& graph, const std::vector<ValueId>& inputs, const std::vector<ValueId>& wanted)
      : graph_(graph) {
    absl::flat_hash_set<ValueId> used(wanted.begin(), wanted.end());
    for (const ir::Node& n : graph.nodes) ir::ForEachUse(n, [&](ValueId v) { used.insert(v); });
    absl::flat_hash_set<ir::StorageId> shared;
    const auto add = [&](ValueId v) {
      if (!own_.insert(graph.value(v).storage).second) shared.insert(graph.value(v).storage);
    };
    for (const ir::ConstantTensor& c : graph.constants) add(c.value);
    for (const ValueId input : inputs) {
      if (!used.contains(input)) continue;
      add(input);
      inputs_[graph.value(input).storage] = input;
    }
    for (const ir::StorageId storage : shared) own_.erase(storage);
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
  // Whether a node of the graph asked for it, or it is a constant's or an input's, of which a run has a copy.
  bool IsOwn(ir::StorageId storage) const { return storage >= 0 && own_.contains(storage); }
  // The input whose memory it is.
  ValueId InputIn(ir::StorageId storage) const {
    const auto it = inputs_.find(storage);
    return it == inputs_.end() ? ir::kNoValue : it->second;
  }

  template <typename F>
  void ForEachWritten(const ir::Node& n, F&& f) const {
    const auto& schema = n.op->arguments();
    for (std::size_t a = 0; n.op->mutates() && a < n.args.size(); ++a) {
      if (schema[a].written) ir::ForEachValue(n.args[a], [&](ValueId v) { f(graph_.value(v).storage); });
    }
  }

 private:
  void Note(const ir::Node& n, std::size_t i) {
    absl::flat_hash_set<ir::StorageId> used;
    ir::ForEachUse(n, [&](ValueId v) { used.insert(graph_.value(v).storage); });
    for (const ValueId v : n.outputs) {
      makers_[v] = i;
      if (v != ir::kNoValue && !used.contains(graph_.value(v).storage)) own_.insert(graph_.value(v).storage);
    }
    ForEachWritten(n, [&](ir::StorageId storage) { writers_[storage].push_back(i); });
  }

  const ir::Graph& graph_;
  absl::flat_hash_set<ir::StorageId> own_;
  absl::flat_hash_map<ir::StorageId, std::vector<std::size_t>> writers_;
  absl::flat_hash_map<ValueId, std::size_t> makers_;
  absl::flat_hash_map<ir::StorageId, ValueId> inputs_;
};

// The nodes that values follow from, found from the last to the first.
class Search {
 public:
  Search(const ir::Graph& graph, const SliceLimits& limits, const std::vector<ValueId>& wanted)
      : graph_(graph), limits_(limits), memory_(graph, limits.inputs, wanted) {
    for (const ir::ConstantTensor& c : graph.constants) constants_[c.value] = c.tensor;
  }

  // Whether `v` may be read by node `reader`.
  bool Need(ValueId v, std::size_t reader) {
    const ir::Value& value = graph_.value(v);
    (constants_.contains(v) ? needed_constants_ : open_).insert(v);
    if (memory_.IsOwn(value.storage)) {
      read_before_.emplace(value.storage, reader);  // the first that is found is the last reader
    } else if (memory_.IsWrittenBefore(v, reader)) {
      return false;
    }
    return value.kind == ir::ValueKind::kTensor && (value.device.is_cpu() || !limits_.on_cpu) &&
           ElementsOf(v) <= limits_.most_elements;
  }

  // Whether it has part, and whether it may.
  enum class Part { kNone, kTaken, kRefused };
  Part Visit(const ir::Node& n, std::size_t i) {
    bool is_needed = false;
    for (const ValueId v : n.outputs) is_needed = (v != ir::kNoValue && open_.erase(v) > 0) || is_needed;
    memory_.ForEachWritten(n, [&](ir::StorageId storage) {
      const auto reader = read_before_.find(storage);
      is_needed = is_needed || (reader != read_before_.end() && i < reader->second);
    });
    if (!is_needed) return Part::kNone;
    bool possible = IsDetermined(*n.op);
    if (limits_.for_hint) {
      possible = ir::Has(n.op, ir::OpFact::kAten) && !n.op->is_random() && !n.op->has_side_effect();
    }
    memory_.ForEachWritten(n, [&](ir::StorageId storage) { possible = possible && MayWrite(storage); });
    ir::ForEachUse(n, [&](ValueId v) { possible = Need(v, i) && possible; });
    return possible ? Part::kTaken : Part::kRefused;
  }

  const absl::flat_hash_set<ValueId>& open() const { return open_; }  // no node that was visited makes them
  bool IsCopied(ValueId input) const { return copied_.contains(input); }
  Values constants() const {
    Values found;
    for (const ValueId v : needed_constants_) found.emplace(v, constants_.at(v));
    return found;
  }

 private:
  std::int64_t ElementsOf(ValueId v) const {
    std::int64_t elements = 1;
    for (const ir::Dim& d : graph_.value(v).sizes) elements *= graph_.exprs.Hint(d);
    return elements;
  }
  bool MayWrite(ir::StorageId storage) {
    const ValueId input = memory_.InputIn(storage);
    if (input != ir::kNoValue) copied_.insert(input);
    return memory_.IsOwn(storage) && (input == ir::kNoValue || ElementsOf(input) <= limits_.most_copied);
  }

  const ir::Graph& graph_;
  const SliceLimits& limits_;
  const Memory memory_;
  Values constants_;
  absl::flat_hash_set<ValueId> open_, needed_constants_, copied_;
  absl::flat_hash_map<ir::StorageId, std::size_t> read_before_;
};

ir::Node AtHints(ir::Node n, const ir::ExprTable& exprs) {
  for (ir::Arg& a : n.args) {
    if (a.kind == ir::Arg::Kind::kDim)
      a = ir::Arg::Constant(ir::NumberOf(exprs.Hint(a.dims[0]), exprs.TypeOf(a.dims[0])));
    if (a.kind != ir::Arg::Kind::kDimList) continue;
    std::vector<ir::Dim> numbers;
    for (const ir::Dim& d : a.dims) numbers.emplace_back(exprs.Hint(d));
    a = ir::Arg::OfDims(std::move(numbers));
  }
  return n;
}

// What stands for sizes and numbers that differ from call to call: the value of each expression, as bits.
struct Numbers {
  const ir::ExprTable& exprs;
  absl::Span<const std::int64_t> values;

  std::int64_t Of(ir::Dim d) const { return d.is_constant() ? d.constant() : values[static_cast<std::size_t>(d.expr)]; }
};

bool PushArgument(const ir::Arg& arg, ir::ArgType type, const Values& values, const Numbers& numbers,
                  torch::jit::Stack* stack) {
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
      stack->push_back(ir::NumberOf(numbers.Of(arg.dims[0]), numbers.exprs.TypeOf(arg.dims[0])));
      return true;
    case ir::Arg::Kind::kDimList: {
      std::vector<std::int64_t> sizes;
      for (const ir::Dim& d : arg.dims) sizes.push_back(numbers.Of(d));
      stack->emplace_back(std::move(sizes));
      return true;
    }
  }
  return false;
}

// With its strides: operators that take those apart may follow.
at::Tensor CopyOf(const at::Tensor& t) { return at::empty_strided(t.sizes(), t.strides(), t.options()).copy_(t); }

void Fill(const at::Tensor& t, std::uint8_t byte) {
  const auto size = static_cast<std::int64_t>(t.storage().nbytes());
  const int value = t.scalar_type() == c10::ScalarType::Bool ? byte >> 7 : byte;
  at::empty({0}, t.options().dtype(c10::ScalarType::Byte)).set_(t.storage(), 0, {size}).fill_(value);
}

// `unset` is what stands in each byte of memory that nobody set.
bool RunNode(const ir::Node& n, const Numbers& numbers, std::uint8_t unset, Values* values) {
  torch::jit::Stack stack;
  for (std::size_t i = 0; i < n.args.size(); ++i) {
    if (!PushArgument(n.args[i], n.op->arguments()[i].type, *values, numbers, &stack)) return false;
  }
  const ir::WarningsOfSizesUnsaid unsaid;
  ir::CallHoldingOperands(n.op->handle(), &stack);
  if (IsUnset(*n.op)) Fill(stack.back().toTensor(), unset);
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

void ValueSlice::TakeSymbols(const ir::ExprTable& exprs, const ir::Node& n) {
  for (const ir::Arg& a : n.args) {
    for (const ir::Dim& d : a.dims) {
      for (ir::SymbolIndex s = 0; d.is_symbolic() && s < static_cast<ir::SymbolIndex>(exprs.symbols().size()); ++s) {
        if (exprs.Mentions(d, s) && !absl::c_linear_search(symbols_, s)) symbols_.push_back(s);
      }
    }
  }
}

std::optional<ValueSlice> ValueSlice::Of(const ir::Graph& graph, const std::vector<ValueId>& wanted,
                                         const SliceLimits& limits) {
  ValueSlice slice;
  slice.wanted_ = wanted;
  Search search(graph, limits, wanted);
  bool possible =
      std::all_of(wanted.begin(), wanted.end(), [&](ValueId v) { return search.Need(v, graph.nodes.size()); });
  for (std::size_t i = graph.nodes.size(); i-- > 0 && possible;) {
    const Search::Part part = search.Visit(graph.nodes[i], i);
    if (part == Search::Part::kNone) continue;
    possible = part == Search::Part::kTaken && slice.nodes_.size() < limits.most_nodes;
    slice.has_writes_ = slice.has_writes_ || graph.nodes[i].op->mutates();
    slice.has_unset_ = slice.has_unset_ || (!limits.for_hint && IsUnset(*graph.nodes[i].op));
    slice.nodes_.push_back(limits.for_hint ? AtHints(graph.nodes[i], graph.exprs) : graph.nodes[i]);
    slice.TakeSymbols(graph.exprs, slice.nodes_.back());
  }
  const auto takes_symbol = [&](ir::SymbolIndex s) { return limits.takes_symbol && limits.takes_symbol(s); };
  if (!possible || !absl::c_all_of(slice.symbols_, takes_symbol)) return std::nullopt;
  if (!slice.symbols_.empty()) slice.exprs_ = graph.exprs;
  std::reverse(slice.nodes_.begin(), slice.nodes_.end());
  slice.constants_ = search.constants();
  slice.inputs_.assign(search.open().begin(), search.open().end());  // no node makes them
  std::sort(slice.inputs_.begin(), slice.inputs_.end());
  for (const ValueId v : slice.inputs_) slice.copied_.push_back(search.IsCopied(v));
  const auto takes = [&](ValueId v) { return limits.takes_input && limits.takes_input(v); };
  if (!std::all_of(slice.inputs_.begin(), slice.inputs_.end(), takes)) return std::nullopt;
  return slice;
}

std::optional<std::vector<std::int64_t>> ValueSlice::NumbersOf(absl::Span<const std::int64_t> symbols) const {
  std::vector<std::int64_t> values, all;
  for (const ir::Symbol& s : exprs_.symbols()) all.push_back(s.hint);
  for (std::size_t i = 0; i < symbols_.size(); ++i) all[static_cast<std::size_t>(symbols_[i])] = symbols[i];
  return exprs_.EvaluateAll(all, &values) ? std::optional(std::move(values)) : std::nullopt;
}

std::optional<std::vector<at::Tensor>> ValueSlice::Run(absl::Span<const at::Tensor> inputs,
                                                       absl::Span<const std::int64_t> symbols) const {
  const std::optional<std::vector<std::int64_t>> numbers = NumbersOf(symbols);
  if (!numbers) return std::nullopt;
  std::optional<std::vector<at::Tensor>> results = RunOn(inputs, *numbers, 0x7f);  // large in every type
  if (!results || !has_unset_) return results;
  const std::optional<std::vector<at::Tensor>> others = RunOn(inputs, *numbers, 0xff);  // -1 and NaN
  if (!others) return std::nullopt;
  for (std::size_t i = 0; i < results->size(); ++i) {
    const at::Tensor &one = (*results)[i], &other = (*others)[i];
    if (one.sizes() != other.sizes() || !one.equal(other)) return std::nullopt;
  }
  return results;
}

std::optional<std::vector<at::Tensor>> ValueSlice::RunOn(absl::Span<const at::Tensor> inputs,
                                                         absl::Span<const std::int64_t> numbers,
                                                         std::uint8_t unset) const {
  Values values = constants_;
  for (auto& [v, tensor] : values) tensor = has_writes_ ? tensor.clone() : tensor;
  for (std::size_t i = 0; i < inputs_.size(); ++i) values[inputs_[i]] = copied_[i] ? CopyOf(inputs[i]) : inputs[i];
  for (const ir::Node& n : nodes_) {
    if (!RunNode(n, {exprs_, numbers}, unset, &values)) return std::nullopt;
  }
  std::vector<at::Tensor> results;
  for (ValueId v : wanted_) results.push_back(values.at(v));
  return results;
}

namespace {
std::string TextOf(const std::vector<ir::Dim>& dims, const ir::ExprTable& exprs) {
  return absl::StrJoin(dims, ", ", [&](std::string* out, ir::Dim d) { out->append(exprs.Print(d)); });
}
}  // namespace

std::string ValueSlice::Expression(std::size_t i, absl::Span<const std::string> names,
                                   absl::Span<const std::string> symbol_names) const {
  ir::ExprTable exprs = exprs_;
  for (std::size_t k = 0; k < symbols_.size(); ++k) exprs.symbol(symbols_[k]).name = symbol_names[k];
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
      if (arg.kind == ir::Arg::Kind::kDim) args.push_back(TextOf(arg.dims, exprs));
      if (arg.kind == ir::Arg::Kind::kDimList) args.push_back(absl::StrCat("[", TextOf(arg.dims, exprs), "]"));
      if (arg.kind != ir::Arg::Kind::kValueList) continue;
      args.push_back(absl::StrCat(
          "[", absl::StrJoin(arg.values, ", ", [&](std::string* out, ValueId v) { out->append(texts[v]); }), "]"));
    }
    const std::vector<std::string> name = absl::StrSplit(n.op->name(), '.');
    const std::string call = absl::StrCat("torch.", name[1], "(", absl::StrJoin(args, ", "), ")");
    for (std::size_t k = 0; k < n.outputs.size(); ++k) {
      texts[n.outputs[k]] = n.outputs.size() == 1 ? call : absl::StrCat(call, "[", k, "]");
    }
  }
  return texts[wanted_[i]];
}

}  // namespace framefuse::tracing
