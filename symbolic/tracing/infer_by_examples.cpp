#include "symbolic/tracing/infer_by_examples.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "backends/graph/meta_run.h"

namespace framefuse::tracing {
namespace {

using ir::Dim;
using Numbers = std::vector<std::int64_t>;

// Far enough apart to tell sums from products, and of many divisors, which facts may ask for.
constexpr std::int64_t kSteps[] = {12, 60};

class Examples {
 public:
  Examples(Recorder& recorder, const ir::Node& node) : recorder_(recorder), graph_(recorder.graph()), node_(node) {
    const auto take = [&](const std::vector<Dim>& dims) {
      for (const Dim& d : dims) {
        if (d.is_symbolic() && std::find(dims_.begin(), dims_.end(), d) == dims_.end()) dims_.push_back(d);
      }
    };
    ir::ForEachUse(node, [&](ir::ValueId v) {
      take(graph_.value(v).sizes);
      take(graph_.value(v).strides);
    });
    for (const ir::Arg& a : node.args) take(a.dims);
    for (const Dim& d : dims_) AddSymbols(d.expr);
  }

  bool any() const { return !dims_.empty(); }

  // Runs the kernel for the sizes at hand and for others. False: too few of them are possible.
  bool Run() {
    Numbers hints;
    for (const ir::Symbol& s : graph_.exprs.symbols()) hints.push_back(s.hint);
    if (!Add(hints)) return false;
    MoveEach();
    std::set<ir::SymbolIndex> bound;
    for (const ir::SymbolIndex s : symbols_) {
      if (!moved_.contains(s) && !MoveWithEqual(s)) bound.insert(s);
    }
    if (moved_.empty()) return false;
    // What the kernel takes for the size at hand only has that size; the others need not.
    for (const ir::SymbolIndex s : bound) (void)recorder_.sizes().Pin(graph_.exprs.OfSymbol(s));
    if (has_bound_ || !bound.empty()) MoveEach();
    constexpr std::size_t kFewest = 3;
    return values_.size() >= kFewest;
  }

  // Sizes with each rest of a division, for quotients to be found by.
  void RunForQuotients() {
    constexpr std::int64_t kMostRests = 12;
    for (std::int64_t step = 1; step <= kMostRests; ++step) Move(symbols_, step);
    tells_rests_ = true;
  }

  std::size_t tensors() const { return results_[0].size(); }
  const at::Tensor& Tensor(std::size_t example, std::size_t tensor) const { return results_[example][tensor]; }
  std::size_t size() const { return results_.size(); }

  // An expression with these values.
  std::optional<Dim> Fit(const Numbers& wanted) const {
    if (std::all_of(wanted.begin(), wanted.end(), [&](std::int64_t v) { return v == wanted[0]; }))
      return Dim(wanted[0]);
    for (const Dim& d : dims_) {
      if (ValuesOf(d) == wanted) return d;
    }
    for (const Dim& d : dims_) {
      if (std::optional<Dim> line = Line(d, wanted)) return line;
    }
    ir::DimAlgebra algebra = recorder_.sizes().Algebra();
    for (const Dim& a : dims_) {
      for (const Dim& b : dims_) {
        const Dim product = algebra.Multiply(a, b), sum = algebra.Add(a, b);
        if (ValuesOf(product) == wanted) return product;
        if (ValuesOf(sum) == wanted) return sum;
      }
    }
    for (std::size_t i = 0; tells_rests_ && i < dims_.size(); ++i) {
      if (std::optional<Dim> quotient = Quotient(dims_[i], wanted)) return quotient;
    }
    return std::nullopt;
  }

  bool Describes(const Dim& d, const Numbers& wanted) const { return ValuesOf(d) == wanted; }

 private:
  void AddSymbols(ir::ExprId id) {
    const ir::Expr& e = graph_.exprs[id];
    if (e.kind == ir::ExprKind::kSymbol) symbols_.insert(static_cast<ir::SymbolIndex>(e.value));
    if (e.left != ir::kNoExpr) AddSymbols(e.left);
    if (e.right != ir::kNoExpr) AddSymbols(e.right);
  }

  bool MeetFacts(const Numbers& symbols) const {
    const std::vector<Dim>& facts = recorder_.sizes().facts();
    return std::all_of(facts.begin(), facts.end(),
                       [&](const Dim& fact) { return graph_.exprs.Evaluate(fact, symbols) != 0; });
  }

  bool Add(const Numbers& symbols) {
    SetHints(symbols);
    const TlsScope plain(nullptr);  // the kernel's own tensors are none of the recording's
    const absl::StatusOr<std::optional<ir::MetaResults>> found = ir::MetaRun(graph_).ResultsOf(node_);
    if (!values_.empty()) SetHints(values_[0]);
    if (!found.ok() || !found->has_value() || !(*found)->has_strides) return false;
    for (const at::Tensor& t : (*found)->tensors) {
      if (t.defined() && (t.layout() != c10::Layout::Strided || t.storage_offset() != 0)) return false;
    }
    if (!results_.empty() && (*found)->tensors.size() != results_[0].size()) return false;
    values_.push_back(symbols);
    results_.push_back((*found)->tensors);
    return true;
  }

  void SetHints(const Numbers& symbols) {
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      graph_.exprs.symbol(static_cast<ir::SymbolIndex>(i)).hint = symbols[i];
    }
  }

  Numbers ValuesOf(const Dim& d) const {
    Numbers values;
    for (const Numbers& symbols : values_) values.push_back(graph_.exprs.Evaluate(d, symbols));
    return values;
  }

  void MoveEach() {
    const auto move = [&](const std::set<ir::SymbolIndex>& symbols, std::int64_t step) {
      if (Move(symbols, step)) moved_.insert(symbols.begin(), symbols.end());
    };
    for (const std::int64_t step : kSteps) {
      move(symbols_, step);
      for (const ir::SymbolIndex s : symbols_) move({s}, step);
    }
  }

  // Sizes that the operator takes only if they are equal, which becomes a fact: this one and another, or all of its
  // size.
  bool MoveWithEqual(ir::SymbolIndex s) {
    std::set<ir::SymbolIndex> all = {s};
    const auto together = [&](const std::set<ir::SymbolIndex>& symbols) {
      if (!Shift(symbols, kSteps[0])) return false;
      for (const ir::SymbolIndex other : symbols) {
        moved_.insert(other);
        if (other == s) continue;
        (void)recorder_.sizes().Decide(ir::ExprKind::kEq, graph_.exprs.OfSymbol(s), graph_.exprs.OfSymbol(other));
      }
      return has_bound_ = true;
    };
    for (const ir::SymbolIndex other : symbols_) {
      const auto hint = [&](ir::SymbolIndex i) { return values_[0][static_cast<std::size_t>(i)]; };
      if (other == s || hint(other) != hint(s)) continue;
      if (together({s, other})) return true;
      all.insert(other);
    }
    return all.size() > 2 && together(all);
  }

  // The same, all by `step`.
  bool Shift(const std::set<ir::SymbolIndex>& symbols, std::int64_t step) {
    return Try(symbols, [&](ir::SymbolIndex) { return step; });
  }

  // Sizes that facts have equal to a moved one's move with it.
  bool Try(const std::set<ir::SymbolIndex>& symbols, absl::FunctionRef<std::int64_t(ir::SymbolIndex)> step) {
    const std::vector<ir::SymbolIndex> first = FirstEqual();
    Numbers other = values_[0];
    std::set<ir::SymbolIndex> classes;
    for (const ir::SymbolIndex s : symbols) classes.insert(first[static_cast<std::size_t>(s)]);
    for (std::size_t i = 0; i < other.size(); ++i) {
      if (classes.contains(first[i])) other[i] = Moved(i, other[i], step(first[i]));
    }
    return MeetFacts(other) && Add(other);
  }

  // Of a float the bits: only another number tells what follows from it.
  std::int64_t Moved(std::size_t symbol, std::int64_t value, std::int64_t step) const {
    if (graph_.exprs.symbols()[symbol].type != ir::NumberType::kFloat) return value + step;
    return std::bit_cast<std::int64_t>(std::bit_cast<double>(value) + static_cast<double>(step));
  }

  // For each symbol the first that facts have equal to it.
  std::vector<ir::SymbolIndex> FirstEqual() const {
    std::vector<ir::SymbolIndex> first(graph_.exprs.symbols().size());
    for (std::size_t i = 0; i < first.size(); ++i) first[i] = static_cast<ir::SymbolIndex>(i);
    for (const Dim& fact : recorder_.sizes().facts()) {
      if (!fact.is_symbolic()) continue;
      const ir::Expr& e = graph_.exprs[fact.expr];
      if (e.kind != ir::ExprKind::kEq || !IsSymbol(e.left) || !IsSymbol(e.right)) continue;
      const auto a = first[static_cast<std::size_t>(graph_.exprs[e.left].value)];
      const auto b = first[static_cast<std::size_t>(graph_.exprs[e.right].value)];
      std::replace(first.begin(), first.end(), std::max(a, b), std::min(a, b));
    }
    return first;
  }
  bool IsSymbol(ir::ExprId id) const { return id != ir::kNoExpr && graph_.exprs[id].kind == ir::ExprKind::kSymbol; }

  // factor * d + rest.
  std::optional<Dim> Line(const Dim& d, const Numbers& wanted) const {
    const Numbers at = ValuesOf(d);
    for (std::size_t i = 1; i < at.size(); ++i) {
      if (at[i] == at[0]) continue;
      if ((wanted[i] - wanted[0]) % (at[i] - at[0]) != 0) return std::nullopt;
      const std::int64_t factor = (wanted[i] - wanted[0]) / (at[i] - at[0]);
      ir::DimAlgebra algebra = recorder_.sizes().Algebra();
      const Dim line = algebra.Add(algebra.Multiply(d, Dim(factor)), Dim(wanted[0] - factor * at[0]));
      return ValuesOf(line) == wanted ? std::optional(line) : std::nullopt;
    }
    return std::nullopt;
  }

  // Runs the kernel for sizes that are larger by `step`. False: it takes none, or the facts do not allow them.
  bool Move(const std::set<ir::SymbolIndex>& symbols, std::int64_t step) {
    const bool each = Try(symbols, [&](ir::SymbolIndex s) { return step + s; });
    return each || Shift(symbols, step);  // equal sizes stay equal, and divisible ones divisible
  }

  // (factor * d + rest) // divisor: what a window of a stride, or a scale, makes of a size.
  std::optional<Dim> Quotient(const Dim& d, const Numbers& wanted) const {
    constexpr std::int64_t kMostFactor = 5, kMostDivisor = 12;
    const Numbers at = ValuesOf(d);
    for (std::int64_t divisor = 2; divisor <= kMostDivisor; ++divisor) {
      for (std::int64_t factor = 1; factor <= kMostFactor; ++factor) {
        if (std::gcd(factor, divisor) != 1) continue;
        std::int64_t least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
        for (std::size_t i = 0; i < at.size(); ++i) {
          const std::int64_t exact = wanted[i] * divisor - factor * at[i];
          least = std::max(least, exact);
          most = std::min(most, exact + divisor - 1);
        }
        if (least > most) continue;
        ir::DimAlgebra algebra = recorder_.sizes().Algebra();
        const std::int64_t rest = std::clamp<std::int64_t>(0, least, most);
        return algebra.FloorDivide(algebra.Add(algebra.Multiply(d, Dim(factor)), Dim(rest)), Dim(divisor));
      }
    }
    return std::nullopt;
  }

  Recorder& recorder_;
  ir::Graph& graph_;
  const ir::Node& node_;
  bool tells_rests_ = false;
  bool has_bound_ = false;           // some sizes have to be equal
  std::set<ir::SymbolIndex> moved_;  // those that the kernel took for other sizes, too
  std::vector<Dim> dims_;            // symbolic ones of the arguments, each once
  std::set<ir::SymbolIndex> symbols_;
  std::vector<Numbers> values_;  // of all symbols, by example
  std::vector<std::vector<at::Tensor>> results_;
};

std::optional<Dim> FitOver(const Examples& examples, std::size_t tensor,
                           std::int64_t (*of)(const at::Tensor&, std::size_t), std::size_t d,
                           const std::optional<Dim>& first) {
  Numbers wanted;
  for (std::size_t e = 0; e < examples.size(); ++e) wanted.push_back(of(examples.Tensor(e, tensor), d));
  if (first && examples.Describes(*first, wanted)) return first;
  return examples.Fit(wanted);
}

std::int64_t SizeAt(const at::Tensor& t, std::size_t d) { return t.sizes()[d]; }
std::int64_t StrideAt(const at::Tensor& t, std::size_t d) { return t.strides()[d]; }

bool Describe(Recorder& recorder, const Examples& examples, std::size_t tensor, OutputMeta* meta) {
  const at::Tensor& first = examples.Tensor(0, tensor);
  meta->defined = first.defined();
  for (std::size_t e = 1; e < examples.size(); ++e) {
    const at::Tensor& t = examples.Tensor(e, tensor);
    if (t.defined() != meta->defined) return false;
    if (t.defined() && (t.scalar_type() != first.scalar_type() || t.dim() != first.dim())) return false;
  }
  if (!meta->defined) return true;
  meta->dtype = first.scalar_type();
  const auto rank = static_cast<std::size_t>(first.dim());
  Sizes& sizes = recorder.sizes();
  for (std::size_t d = 0; d < rank; ++d) {
    const std::optional<Dim> size = FitOver(examples, tensor, SizeAt, d, std::nullopt);
    if (!size) return false;
    meta->sizes.push_back(sizes.ToSymInt(*size));
  }
  Dim contiguous(1);
  meta->strides.resize(rank);
  for (std::size_t d = rank; d-- > 0;) {
    const std::optional<Dim> stride = FitOver(examples, tensor, StrideAt, d, contiguous);
    if (!stride) return false;
    meta->strides[d] = sizes.ToSymInt(*stride);
    contiguous = sizes.Algebra().Multiply(*stride, sizes.ToDim(meta->sizes[d]));
  }
  return true;
}

bool DescribeAll(Recorder& recorder, const Examples& examples, Outputs* outputs) {
  outputs->clear();
  for (std::size_t t = 0; t < examples.tensors(); ++t) {
    OutputMeta meta;
    if (!Describe(recorder, examples, t, &meta)) {
      outputs->clear();
      return false;
    }
    outputs->push_back(std::move(meta));
  }
  return true;
}

// In place, which leaves the sizes as they are: only whether the kernel takes the operands is asked.
bool WritesFirst(const OpTraits& traits) {
  const auto& returns = traits.op->returns();
  return returns.size() == 1 && returns[0].written_argument == 0 && !traits.handle.hasTag(at::Tag::inplace_view) &&
         std::none_of(traits.op->arguments().begin() + 1, traits.op->arguments().end(),
                      [](const ir::OpArgument& a) { return a.written; });
}

bool MakesFreshTensors(const OpTraits& traits) {
  if (traits.op->mutates()) return WritesFirst(traits);
  return std::all_of(traits.op->returns().begin(), traits.op->returns().end(), [](const ir::OpReturn& r) {
    return r.written_argument < 0 && r.viewed_argument < 0 && r.type == ir::ArgType::kTensor;
  });
}

// The examples do not tell whether an operand is stretched, and kernels read one element or as many as there are.
void AskForOnes(Recorder& recorder, const ir::Node& node) {
  std::vector<Dim> sizes;
  ir::ForEachUse(node, [&](ir::ValueId v) {
    const std::vector<Dim>& of_operand = recorder.graph().value(v).sizes;
    sizes.insert(sizes.end(), of_operand.begin(), of_operand.end());
  });
  for (const Dim& d : sizes) {
    if (d.is_symbolic()) (void)recorder.sizes().Decide(ir::ExprKind::kEq, d, Dim(1));
  }
}

}  // namespace

bool InferByExamples(Recorder& recorder, const OpTraits& traits, ir::Node* node, Outputs* outputs) {
  if (!recorder.sizes().any() || !MakesFreshTensors(traits)) return false;
  if (traits.op->is_pointwise()) AskForOnes(recorder, *node);
  Examples examples(recorder, *node);
  if (!examples.any() || !examples.Run()) return false;
  if (traits.op->mutates()) {
    outputs->clear();
  } else if (!DescribeAll(recorder, examples, outputs)) {
    examples.RunForQuotients();
    if (!DescribeAll(recorder, examples, outputs)) return false;
  }
  node->guessed = true;
  return true;
}

}  // namespace framefuse::tracing
