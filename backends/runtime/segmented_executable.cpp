#include "backends/runtime/segmented_executable.h"

#include <ATen/core/TensorBody.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "backends/graph/operators.h"
#include "backends/graph/sized_graph.h"
#include "backends/graph/subgraph.h"
#include "backends/passes/aliases.h"
#include "backends/runtime/torch_error.h"
#include "common/check.h"
#include "common/index.h"
#include "common/status.h"

namespace framefuse {
namespace {

using ir::kNoValue;
using ir::Node;
using ir::SymbolIndex;
using ir::ValueId;

// A kernel on a device that is given an index out of range ends the process: what the program has checked comes first.
// These take any values.
bool TakesAnyValues(const Node& n) {
  return n.op->is_pointwise() || ViewedArgument(*n.op) >= 0 || ir::Is(n.op, ir::OpName::kClone);
}

// Where the nodes are cut: before the first that needs a symbol that is not known yet.
class Cutter {
 public:
  explicit Cutter(const ir::Graph& graph)
      : graph_(graph), defines_(graph.values.size(), false), sized_by_(graph.values.size(), false) {
    for (const ir::Output& o : graph.outputs) {
      if (o.role != ir::OutputRole::kUnbacked) continue;
      defines_[At(o.value)] = true;
      if (o.dim >= 0) sized_by_[At(o.value)] = true;
      own_.emplace_back(o.value, o.symbol);
    }
    known_.assign(graph.exprs.symbols().size(), true);
    for (const auto& [value, symbol] : own_) known_[At(symbol)] = false;
    for (const ir::Input& in : graph.inputs) Learn(in.value);
    for (const ir::ConstantTensor& c : graph.constants) Learn(c.value);
    Arrive();
  }

  // Internal: a size is used that only a later node defines.
  absl::StatusOr<std::vector<std::vector<const Node*>>> Run() {
    std::vector<std::vector<const Node*>> segments(1);
    for (const Node& n : graph_.nodes) {
      if (!waiting_.empty() && (NeedsWaiting(n) || !TakesAnyValues(n))) {
        Arrive();
        segments.emplace_back();
      }
      FF_RET_CHECK(!NeedsWaiting(n)) << n.op->name() << " uses a size before the graph has computed it";
      segments.back().push_back(&n);
      for (const ValueId v : n.outputs) Learn(v);
    }
    return segments;
  }

 private:
  void Learn(ValueId v) {
    if (v == kNoValue || !defines_[At(v)]) return;
    for (const auto& [value, symbol] : own_) {
      if (value == v) waiting_.push_back(symbol);
    }
    if (sized_by_[At(v)]) unsure_.push_back(v);
  }
  void Arrive() {
    for (const SymbolIndex s : waiting_) known_[At(s)] = true;
    waiting_.clear();
    unsure_.clear();
  }
  bool IsKnown(const ir::Dim& d) const {
    if (d.is_constant()) return true;
    const ir::Expr& e = graph_.exprs[d.expr];
    if (e.kind == ir::ExprKind::kSymbol) return known_[At(static_cast<std::int32_t>(e.value))];
    const auto part = [&](ir::ExprId id) { return id == ir::kNoExpr || IsKnown(ir::Dim::OfExpr(id)); };
    return part(e.left) && part(e.right);
  }
  bool AreKnown(const std::vector<ir::Dim>& dims) const {
    return std::all_of(dims.begin(), dims.end(), [&](const ir::Dim& d) { return IsKnown(d); });
  }
  // Its own results may define what it has not: an operator runs without.
  bool NeedsWaiting(const Node& n) const {
    bool needs = false;
    const auto look = [&](ValueId v) {
      const ir::Value& value = graph_.value(v);
      needs = needs || !AreKnown(value.sizes) || !AreKnown(value.strides) || !IsKnown(value.offset);
    };
    for (const ir::Arg& a : n.args) needs = needs || !AreKnown(a.dims);
    ir::ForEachUse(n, [&](ValueId v) {
      look(v);
      needs = needs || std::find(unsure_.begin(), unsure_.end(), v) != unsure_.end();
    });
    const bool defines =
        std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return v != kNoValue && defines_[At(v)]; });
    for (const ValueId v : n.outputs) {
      if (v != kNoValue && !defines) look(v);
    }
    return needs;
  }

  const ir::Graph& graph_;
  std::vector<bool> defines_, sized_by_;
  std::vector<std::pair<ValueId, SymbolIndex>> own_;
  std::vector<bool> known_;           // by symbol
  std::vector<SymbolIndex> waiting_;  // to be known behind the segment
  std::vector<ValueId> unsure_;       // of sizes that nobody has checked yet
};

}  // namespace

std::int64_t UnbackedValue(const at::Tensor& output, std::int32_t dim, ir::NumberType type) {
  if (dim >= 0) return output.size(dim);
  const at::Tensor element = output.dim() == 0 ? output : output.reshape({-1})[~dim];
  if (type == ir::NumberType::kFloat) return std::bit_cast<std::int64_t>(element.item().toDouble());
  return element.scalar_type() == c10::ScalarType::Bool ? element.item().toBool() : element.item().toLong();
}

SegmentedExecutable::SegmentedExecutable(const ir::Graph& graph) : graph_(graph) {}

absl::StatusOr<std::unique_ptr<Executable>> SegmentedExecutable::Create(const ir::Graph& graph,
                                                                        const ExecutableFactory& factory,
                                                                        const BackendOptions& options) {
  if (!graph.functional) return absl::UnimplementedError("sizes that follow from values, in a graph that writes");
  auto made = std::unique_ptr<SegmentedExecutable>(new SegmentedExecutable(graph));
  FF_RETURN_IF_ERROR(made->Compile(factory, options));
  return made;
}

absl::Status SegmentedExecutable::Compile(const ExecutableFactory& factory, const BackendOptions& options) {
  FF_ASSIGN_OR_RETURN(const std::vector<std::vector<const Node*>> parts, Cutter(graph_).Run());
  segments_.resize(parts.size() + 1);
  std::vector<std::size_t> made_in(graph_.values.size(), 0);
  for (std::size_t s = 0; s < parts.size(); ++s) {
    for (const Node* n : parts[s]) {
      for (const ValueId v : n->outputs) {
        if (v != kNoValue) made_in[At(v)] = s + 1;
      }
    }
  }
  for (const ir::Output& o : graph_.outputs) {
    if (o.role != ir::OutputRole::kUnbacked) continue;
    segments_[made_in[At(o.value)]].defines.push_back({o.symbol, o.dim, o.value});
  }
  PlanFacts();
  // What a segment hands on: what a later one reads, what defines something, the graph's outputs.
  std::vector<bool> wanted(graph_.values.size(), false);
  for (const ir::Output& o : graph_.outputs) {
    if (o.value != kNoValue) wanted[At(o.value)] = true;
  }
  for (std::size_t s = parts.size(); s-- > 0;) {
    Segment& segment = segments_[s + 1];
    for (const Node* n : parts[s]) {
      for (const ValueId v : n->outputs) {
        if (v != kNoValue && wanted[At(v)]) segment.outputs.push_back(v);
      }
    }
    for (const Node* n : parts[s]) {
      ir::ForEachUse(*n, [&](ValueId v) {
        if (made_in[At(v)] == s + 1) return;
        wanted[At(v)] = true;
        const bool listed = std::find(segment.inputs.begin(), segment.inputs.end(), v) != segment.inputs.end();
        if (!listed) segment.inputs.push_back(v);
      });
    }
  }
  for (std::size_t s = 0; s < parts.size(); ++s) {
    FF_RETURN_IF_ERROR(CompileSegment(parts[s], factory, options, &segments_[s + 1]));
  }
  PlanLives();
  return absl::OkStatus();
}

absl::Status SegmentedExecutable::CompileSegment(const std::vector<const Node*>& nodes,
                                                 const ExecutableFactory& factory, const BackendOptions& options,
                                                 Segment* segment) const {
  if (nodes.empty()) return absl::OkStatus();
  ir::SubgraphBuilder builder(graph_, graph_.name + ".segment");
  std::vector<ValueId> constants;
  for (const ir::ConstantTensor& c : graph_.constants) constants.push_back(c.value);
  std::erase_if(segment->inputs, [&](ValueId v) {
    return std::find(constants.begin(), constants.end(), v) != constants.end();  // the builder takes them along
  });
  for (const ValueId v : segment->inputs) {
    const auto in =
        std::find_if(graph_.inputs.begin(), graph_.inputs.end(), [v](const auto& i) { return i.value == v; });
    ir::Input facts;
    if (in != graph_.inputs.end()) {
      facts.role = in->role;
      facts.name = in->name;
      facts.overlap_class = in->overlap_class;
    }
    builder.AddInput(v, facts);
  }
  bool guessed = false;
  for (const Node* n : nodes) {
    builder.AddNode(*n);
    guessed = guessed || n->guessed;
  }
  for (const ValueId v : segment->outputs) {
    ir::Output output;
    output.value = v;
    output.role = ir::OutputRole::kHidden;
    builder.AddOutput(output);
  }
  ir::Graph part = builder.Take();
  if (guessed) segment->guessed = part;
  BackendOptions own = options;
  own.first_kept_output = -1;
  FF_ASSIGN_OR_RETURN(segment->executable, factory(std::move(part), own));
  return absl::OkStatus();
}

void SegmentedExecutable::PlanFacts() {
  if (graph_.deferred == nullptr) return;
  for (std::size_t f = 0; f < graph_.deferred->facts.size(); ++f) {
    std::size_t last = 0;
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      for (const Definition& d : segments_[s].defines) {
        if (graph_.deferred->exprs.Mentions(graph_.deferred->facts[f], d.symbol)) last = s;
      }
    }
    segments_[last].facts.push_back(f);
  }
}

void SegmentedExecutable::PlanLives() {
  std::vector<std::size_t> last(graph_.values.size(), 0);
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    for (const ValueId v : segments_[s].inputs) last[At(v)] = s;
  }
  for (const ir::Output& o : graph_.outputs) {
    if (o.value != kNoValue) last[At(o.value)] = 0;
  }
  for (std::size_t v = 0; v < last.size(); ++v) {
    if (last[v] > 0) segments_[last[v]].dead.push_back(static_cast<ValueId>(v));
  }
}

absl::Status SegmentedExecutable::Define(const Segment& segment, Slots& slots,
                                         std::vector<std::int64_t>& symbols) const {
  try {
    for (const Definition& d : segment.defines) {
      at::Tensor& t = slots[At(d.value)];
      if (d.dim < 0 && !t.is_cpu()) t = t.cpu();
      symbols[At(d.symbol)] = UnbackedValue(t, d.dim, graph_.exprs.symbols()[At(d.symbol)].type);
    }
  } catch (...) {
    return TorchErrorStatus(std::current_exception(), "");
  }
  if (segment.facts.empty()) return absl::OkStatus();
  std::vector<std::int64_t> values;
  const bool fits = graph_.deferred->exprs.EvaluateAll(symbols, &values);
  for (const std::size_t f : segment.facts) {
    if (!fits || values[At(graph_.deferred->facts[f].expr)] == 0) return DeferredFailure(f);
  }
  return absl::OkStatus();
}

// Before it runs: a kernel believes what the graph says of sizes.
absl::Status SegmentedExecutable::CheckSizes(const Segment& segment, absl::Span<const std::int64_t> symbols) const {
  if (segment.guessed.nodes.empty()) return absl::OkStatus();
  std::vector<std::int64_t> key(symbols.begin(), symbols.end());
  key.push_back(&segment - segments_.data());
  const absl::MutexLock lock(&mutex_);
  if (checked_.contains(key)) return absl::OkStatus();
  absl::Status status = ir::CheckGuessed(ir::WithSizes(segment.guessed, symbols));
  if (!status.ok()) return status;
  constexpr std::size_t kMost = 4096;
  if (checked_.size() >= kMost) checked_.clear();
  checked_.insert(std::move(key));
  return absl::OkStatus();
}

absl::Status SegmentedExecutable::Run(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> given,
                                      absl::Span<at::Tensor> outputs) const {
  Slots slots(graph_.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) slots[At(graph_.inputs[i].value)] = inputs[i];
  for (const ir::ConstantTensor& c : graph_.constants) slots[At(c.value)] = c.tensor;
  std::vector<std::int64_t> symbols(given.begin(), given.end());
  for (std::size_t s = 0; s < symbols.size(); ++s) {
    if (graph_.exprs.symbols()[s].unbacked) symbols[s] = graph_.exprs.symbols()[s].hint;
  }
  for (const Segment& segment : segments_) {
    if (segment.executable != nullptr) {
      FF_RETURN_IF_ERROR(CheckSizes(segment, symbols));
      Slots arguments, results(segment.outputs.size());
      for (const ValueId v : segment.inputs) arguments.push_back(slots[At(v)]);
      for (const ValueId v : segment.dead) slots[At(v)].reset();
      FF_RETURN_IF_ERROR(segment.executable->RunConsuming(absl::MakeSpan(arguments), symbols, absl::MakeSpan(results)));
      for (std::size_t i = 0; i < results.size(); ++i) slots[At(segment.outputs[i])] = std::move(results[i]);
    }
    FF_RETURN_IF_ERROR(Define(segment, slots, symbols));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId v = graph_.outputs[i].value;
    if (v != kNoValue) outputs[i] = slots[At(v)];
  }
  return absl::OkStatus();
}

std::vector<PlanGroup> SegmentedExecutable::Explain() const {
  std::vector<PlanGroup> groups;
  for (const Segment& segment : segments_) {
    if (segment.executable == nullptr) continue;
    for (PlanGroup& group : segment.executable->Explain()) groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace framefuse
