#include "symbolic/tracing/sizes.h"

#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "backends/graph/expr_kinds.h"
#include "symbolic/tracing/size_node.h"

namespace framefuse::tracing {

using ir::Dim;
using ir::ExprKind;

ir::ExprTable& Sizes::Table() const {
  TORCH_CHECK(table_ != nullptr, "framefuse: a symbolic size was used outside its capture");
  return *table_;
}

namespace {
Dim AddSymbol(ir::ExprTable& table, std::int64_t hint, std::pair<std::int64_t, std::int64_t> range) {
  ir::Symbol symbol;
  symbol.name = "s" + std::to_string(table.symbols().size());
  symbol.hint = hint;
  symbol.min = range.first;
  symbol.max = range.second;
  return table.OfSymbol(table.AddSymbol(std::move(symbol)));
}

// The symbol that came last.
void SetUnbacked(ir::ExprTable& table) {
  ir::Symbol& symbol = table.symbol(static_cast<ir::SymbolIndex>(table.symbols().size()) - 1);
  symbol.unbacked = true;
  symbol.name[0] = 'u';
}
}  // namespace

Dim Sizes::NewNumber(std::int64_t hint) {
  has_numbers_ = true;
  numbers_.insert(static_cast<std::int64_t>(Table().symbols().size()));
  return AddSymbol(Table(), hint, ir::kNumbers);
}

Dim Sizes::NewFloat(double hint) {
  ir::Symbol symbol;
  symbol.name = "f" + std::to_string(Table().symbols().size());
  symbol.type = ir::NumberType::kFloat;
  symbol.hint = std::bit_cast<std::int64_t>(hint);
  return Table().OfSymbol(Table().AddSymbol(std::move(symbol)));
}

Dim Sizes::NewUnbackedSize(std::int64_t hint, std::int64_t most) {
  ir::ExprTable& table = Table();
  const Dim size = AddSymbol(table, hint, {0, most});
  SetUnbacked(table);
  Note(table.Make(ExprKind::kLe, Dim(0), size));
  return size;
}

Dim Sizes::NewUnbackedNumber(const c10::Scalar& hint) {
  ir::ExprTable& table = Table();
  const Dim number = hint.isFloatingPoint() ? NewFloat(hint.toDouble()) : NewNumber(hint.toLong());
  SetUnbacked(table);
  if (hint.isFloatingPoint()) return number;
  Note(table.Make(ExprKind::kAnd, table.Make(ExprKind::kLe, Dim(ir::kNumbers.first), number),
                  table.Make(ExprKind::kLe, number, Dim(ir::kNumbers.second))));
  return number;
}

Dim Sizes::NewSymbol(std::int64_t hint) {
  const Dim size = AddSymbol(Table(), hint, {0, std::numeric_limits<std::int64_t>::max()});
  (void)Decide(ExprKind::kLe, Dim(1), size);
  return size;
}

std::optional<Dim> Sizes::Whole(ExprKind rounding, Dim d) {
  const auto bound = [&](std::int64_t v) { return Table().FloatConstant(static_cast<double>(v)); };
  if (!Decide(ExprKind::kLe, bound(ir::kNumbers.first), d)) return std::nullopt;
  if (!Decide(ExprKind::kLe, d, bound(ir::kNumbers.second))) return std::nullopt;
  has_numbers_ = true;
  return Table().Make(rounding, d);
}

bool Sizes::Fit() const {
  if (!has_numbers_) return true;
  std::vector<std::int64_t> hints, values;
  for (const ir::Symbol& s : Table().symbols()) hints.push_back(s.hint);
  return Table().EvaluateAll(hints, &values);
}

// An expression that does not fit would be evaluated in each call: the table is put back as it was before.
std::optional<Dim> Sizes::IfItFits(absl::FunctionRef<Dim()> make) {
  if (!has_numbers_) return make();
  ir::ExprTable before = Table();
  const Dim made = make();
  if (Fit()) return made;
  Table() = std::move(before);
  return std::nullopt;
}

std::optional<Dim> Sizes::IntegerPower(Dim a, Dim b) {
  has_numbers_ = true;  // powers of sizes need not fit
  return IfItFits([&] { return Table().Make(ExprKind::kPow, a, b); });
}

bool Sizes::IsOfNumbers(Dim d) const {
  if (d.is_constant()) return true;
  const ir::Expr& e = Table()[d.expr];
  if (e.kind == ExprKind::kSymbol) return e.type == ir::NumberType::kFloat || numbers_.contains(e.value);
  const auto of = [&](ir::ExprId id) { return id == ir::kNoExpr || IsOfNumbers(Dim::OfExpr(id)); };
  return of(e.left) && of(e.right);
}

c10::SymInt Sizes::ToSymInt(Dim d) {
  if (d.is_constant()) return c10::SymInt(d.constant());
  return c10::SymInt(c10::SymNode(c10::make_intrusive<SizeNode>(shared_from_this(), SizeNode::Kind::kInt, d)));
}

Dim Sizes::ToDim(const c10::SymInt& s) {
  if (const auto plain = s.maybe_as_int()) return Dim(*plain);
  const c10::SymNode node = s.toSymNode();
  const auto* own = dynamic_cast<const SizeNode*>(node.get());
  return own != nullptr && own->sizes() == this ? own->dim() : Dim(s.guard_int(__FILE__, __LINE__));
}

c10::SymFloat Sizes::ToSymFloat(Dim d) {
  return c10::SymFloat(c10::SymNode(c10::make_intrusive<SizeNode>(shared_from_this(), SizeNode::Kind::kFloat, d)));
}

Dim Sizes::ToDim(const c10::SymFloat& s) {
  if (!s.is_symbolic()) return Table().FloatConstant(s.as_float_unchecked());
  const c10::SymNodeImpl* node = s.toSymNodeImplUnowned();
  const auto* own = dynamic_cast<const SizeNode*>(node);
  if (own != nullptr && own->sizes() == this) return own->dim();
  if (const auto* python = dynamic_cast<const torch::impl::PythonSymNodeImpl*>(node)) {
    if (const auto it = floats_.find(python->getPyObj().ptr()); it != floats_.end()) return it->second;
  }
  return Table().FloatConstant(s.guard_float(__FILE__, __LINE__));
}

void Sizes::Note(Dim condition) {
  if (!known_.insert(condition.expr).second) return;
  facts_.push_back(condition);
  if (listener_ != nullptr) listener_->OnFact(condition);
}

// A fact about one symbol narrows its range: questions that follow from it leave no further facts.
void Sizes::Narrow(ExprKind comparison, Dim a, Dim b) {
  const auto linear = Algebra().AsLinear(Algebra().Subtract(a, b));
  if (!linear || (linear->factor != 1 && linear->factor != -1)) return;
  ir::Symbol& symbol = Table().symbol(linear->symbol);
  const bool rises = linear->factor == 1;
  const std::int64_t root = rises ? -linear->rest : linear->rest;  // where the two are equal
  if (comparison == ExprKind::kEq) {
    symbol.min = symbol.max = root;
  } else if (comparison == ExprKind::kNe) {
    if (symbol.min == root) ++symbol.min;
    if (symbol.max == root) --symbol.max;
  } else {
    const int step = comparison == ExprKind::kLt ? 1 : 0;
    if (rises) symbol.max = std::min(symbol.max, root - step);
    if (!rises) symbol.min = std::max(symbol.min, root + step);
  }
}

// An operand of an expression: a constant integer as itself.
Dim Sizes::OperandOf(ir::ExprId id) {
  const ir::Expr& e = Table()[id];
  return e.kind == ExprKind::kConstant && e.type == ir::NumberType::kInt ? Dim(e.value) : Dim::OfExpr(id);
}

// In whatever form it was asked.
bool Sizes::IsFactAtMost(Dim a, Dim b) {
  const Dim wanted = Algebra().Subtract(a, b);
  return std::any_of(facts_.begin(), facts_.end(), [&](Dim fact) {
    if (Table()[fact.expr].kind != ExprKind::kLe) return false;
    const Dim left = OperandOf(Table()[fact.expr].left), right = OperandOf(Table()[fact.expr].right);
    if (IsFloat(left) || IsFloat(right) || HintOf(left) != HintOf(right)) return false;
    return Algebra().Subtract(left, right) == wanted;
  });
}

// Nothing follows of what does not hold: the two may have no order.
bool Sizes::DecideFloats(ExprKind comparison, Dim a, Dim b) {
  ir::ExprTable& table = Table();
  const Dim condition = table.Make(comparison, a, b);
  const bool holds = HintOf(condition) != 0;
  if (table[condition.expr].kind != ExprKind::kConstant)
    Note(holds ? condition : table.Make(ExprKind::kNot, condition));
  return holds;
}

bool Sizes::Decide(ExprKind comparison, Dim a, Dim b) {
  if (IsFloat(a) || IsFloat(b)) return DecideFloats(comparison, a, b);
  if (const std::optional<bool> known = Algebra().Decide(comparison, a, b)) return *known;
  ir::ExprTable& table = Table();
  const std::int64_t left = table.Hint(a), right = table.Hint(b);
  switch (comparison) {
    case ExprKind::kEq:
    case ExprKind::kNe: {
      const bool equal = left == right;
      const ExprKind fact = equal ? ExprKind::kEq : ExprKind::kNe;
      Note(table.Make(fact, a, b));
      Narrow(fact, a, b);
      return equal == (comparison == ExprKind::kEq);
    }
    case ExprKind::kLt:
    case ExprKind::kLe: {
      const bool holds = comparison == ExprKind::kLt ? left < right : left <= right;
      // Not a < b is b <= a.
      ExprKind fact = (comparison == ExprKind::kLt) == holds ? ExprKind::kLt : ExprKind::kLe;
      const Dim x = holds ? a : b, y = holds ? b : a;
      if (fact == ExprKind::kLe && left == right && IsFactAtMost(y, x)) fact = ExprKind::kEq;
      Note(table.Make(fact, x, y));
      Narrow(fact, x, y);
      return holds;
    }
    default:
      TORCH_CHECK(false, "framefuse: not a comparison");
  }
}

bool Sizes::DecideBool(Dim condition) {
  if (condition.is_constant()) return condition.constant() != 0;
  ir::ExprTable& table = Table();
  const ir::Expr e = table[condition.expr];
  const auto part = [](ir::ExprId id) { return Dim::OfExpr(id); };
  if (e.kind == ExprKind::kConstant) return e.value != 0;
  if (e.kind == ExprKind::kNot) return !DecideBool(part(e.left));
  if (e.kind == ExprKind::kAnd) return DecideBool(part(e.left)) && DecideBool(part(e.right));
  if (e.kind == ExprKind::kOr) return DecideBool(part(e.left)) || DecideBool(part(e.right));
  if (ir::IsPredicate(e.kind)) return Decide(e.kind, OperandOf(e.left), OperandOf(e.right));
  return Decide(ExprKind::kNe, condition, Dim(0));
}

void Sizes::NotePinned(Dim d) {
  const ir::SymbolIndex last = Table().LastUnbacked(d);
  if (last >= 0) pinned_unbacked_.push_back(last);
}

double Sizes::PinFloat(Dim d) {
  ir::ExprTable& table = Table();
  const double value = FloatHintOf(d);
  if (table[d.expr].kind != ExprKind::kConstant) NotePinned(d);
  if (std::isnan(value)) {
    (void)Decide(ExprKind::kNe, d, d);
    return value;
  }
  (void)Decide(ExprKind::kEq, d, table.FloatConstant(value));
  // The two zeros are equal, but not their reciprocals.
  const Dim one = table.FloatConstant(1);
  if (value == 0) (void)Decide(ExprKind::kEq, table.Make(ExprKind::kTrueDiv, one, d), table.FloatConstant(1 / value));
  return value;
}

Dim Sizes::AsOperand(Dim d) {
  constexpr double kMost = 0x1.fep127;  // of bfloat16, the narrowest type that a kernel takes such a number for
  ir::ExprTable& table = Table();
  if (!(std::abs(FloatHintOf(d)) <= kMost)) return table.FloatConstant(PinFloat(d));
  (void)Decide(ExprKind::kLe, d, table.FloatConstant(kMost));
  (void)Decide(ExprKind::kLe, table.FloatConstant(-kMost), d);
  return d;
}

std::int64_t Sizes::Pin(Dim d) {
  if (d.is_constant()) return d.constant();
  if (IsFloat(d)) return std::bit_cast<std::int64_t>(PinFloat(d));
  const std::int64_t value = HintOf(d);
  if (!Algebra().Decide(ExprKind::kEq, d, Dim(value))) NotePinned(d);
  (void)Decide(ExprKind::kEq, d, Dim(value));
  return value;
}

}  // namespace framefuse::tracing
