#include "symbolic/tracing/size_node.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "symbolic/tracing/cumulative_product_gradient.h"
#include "symbolic/tracing/number_functions.h"
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

using c10::SymNode;
using ir::Dim;
using ir::ExprKind;

SymNode SizeNode::Int(Dim d) const { return c10::make_intrusive<SizeNode>(sizes_, Kind::kInt, d); }

SymNode SizeNode::Bool(Dim d) const { return c10::make_intrusive<SizeNode>(sizes_, Kind::kBool, d); }

Dim SizeNode::DimOf(const SymNode& node) const {
  const auto* own = dynamic_cast<const SizeNode*>(node.get());
  if (own != nullptr && own->sizes_ == sizes_ && own->kind_ != Kind::kFloat) return own->dim_;
  if (node->is_bool()) return Dim(node->guard_bool(__FILE__, __LINE__) ? 1 : 0);
  return Dim(node->guard_int(__FILE__, __LINE__));
}

SymNode SizeNode::Float(Dim d) const { return c10::make_intrusive<SizeNode>(sizes_, Kind::kFloat, d); }

Dim SizeNode::FloatDimOf(const SymNode& node) const {
  if (!node->is_float()) return DimOf(node);
  const auto* own = dynamic_cast<const SizeNode*>(node.get());
  if (own != nullptr && own->sizes_ == sizes_) return own->dim_;
  return sizes_->Table().FloatConstant(node->guard_float(__FILE__, __LINE__));
}

SymNode SizeNode::OfFloats(ExprKind operation, const SymNode& other) const {
  return Float(sizes_->Table().Make(operation, dim_, FloatDimOf(other)));
}

double SizeNode::NumberOf(const SymNode& node) const {
  if (node->is_float()) return node->guard_float(__FILE__, __LINE__);
  return static_cast<double>(node->guard_int(__FILE__, __LINE__));
}

bool SizeNode::IsNumber(const SymNode& other) const { return kind_ == Kind::kFloat || other->is_float(); }

SymNode SizeNode::clone() { return c10::make_intrusive<SizeNode>(sizes_, kind_, dim_); }
SymNode SizeNode::wrap_int(std::int64_t number) { return Int(Dim(number)); }
SymNode SizeNode::wrap_float(double number) { return Float(sizes_->Table().FloatConstant(number)); }
SymNode SizeNode::wrap_bool(bool value) { return Bool(Dim(value ? 1 : 0)); }

// ---------------------------------------------------------------- arithmetic

SymNode SizeNode::add(const SymNode& other) {
  if (IsNumber(other)) return OfFloats(ExprKind::kAdd, other);
  return Int(sizes_->Algebra().Add(dim_, DimOf(other)));
}

SymNode SizeNode::sub(const SymNode& other) {
  if (IsNumber(other)) {
    ir::ExprTable& table = sizes_->Table();
    return Float(table.Make(ExprKind::kAdd, dim_, table.Make(ExprKind::kNeg, FloatDimOf(other))));
  }
  return Int(sizes_->Algebra().Subtract(dim_, DimOf(other)));
}

SymNode SizeNode::mul(const SymNode& other) {
  if (IsNumber(other)) return OfFloats(ExprKind::kMul, other);
  return Int(sizes_->Algebra().Multiply(dim_, DimOf(other)));
}

SymNode SizeNode::truediv(const SymNode& other) { return OfFloats(ExprKind::kTrueDiv, other); }

SymNode SizeNode::pow(const SymNode& other) {
  constexpr std::int64_t kMost = 8;
  if (IsNumber(other)) {
    if (const std::optional<Dim> power = FloatPower(*sizes_, dim_, FloatDimOf(other))) return Float(*power);
    return wrap_float(std::pow(guard_float(__FILE__, __LINE__), NumberOf(other)));
  }
  const std::int64_t exponent = other->guard_int(__FILE__, __LINE__);
  if (exponent < 0 || exponent > kMost) {
    return wrap_float(std::pow(guard_float(__FILE__, __LINE__), static_cast<double>(exponent)));
  }
  Dim result(1);
  for (std::int64_t i = 0; i < exponent; ++i) result = sizes_->Algebra().Multiply(result, dim_);
  return Int(result);
}

SymNode SizeNode::floordiv(const SymNode& other) {
  if (IsNumber(other)) return wrap_float(std::floor(guard_float(__FILE__, __LINE__) / NumberOf(other)));
  const Dim divisor = DimOf(other);
  TORCH_CHECK(!sizes_->Decide(ExprKind::kEq, divisor, Dim(0)), "integer division by zero");
  return Int(sizes_->Algebra().FloorDivide(dim_, divisor));
}

SymNode SizeNode::mod(const SymNode& other) {
  const Dim divisor = DimOf(other);
  TORCH_CHECK(!sizes_->Decide(ExprKind::kEq, divisor, Dim(0)), "integer modulo by zero");
  return Int(sizes_->Algebra().Modulo(dim_, divisor));
}

SymNode SizeNode::neg() {
  if (kind_ == Kind::kFloat) return Float(sizes_->Table().Make(ExprKind::kNeg, dim_));
  return Int(sizes_->Algebra().Negate(dim_));
}

SymNode SizeNode::ceil() {
  if (const std::optional<Dim> whole = ApplyFunction(*sizes_, NumberFunction::kCeil, dim_)) return Int(*whole);
  return wrap_int(std::llround(std::ceil(guard_float(__FILE__, __LINE__))));
}
SymNode SizeNode::floor() {
  if (const std::optional<Dim> whole = ApplyFunction(*sizes_, NumberFunction::kFloor, dim_)) return Int(*whole);
  return wrap_int(std::llround(std::floor(guard_float(__FILE__, __LINE__))));
}

SymNode SizeNode::sym_min(const SymNode& other) {
  if (IsNumber(other)) return wrap_float(std::min(guard_float(__FILE__, __LINE__), NumberOf(other)));
  return Int(sizes_->Algebra().Minimum(dim_, DimOf(other)));
}

SymNode SizeNode::sym_max(const SymNode& other) {
  if (IsNumber(other)) return wrap_float(std::max(guard_float(__FILE__, __LINE__), NumberOf(other)));
  return Int(sizes_->Algebra().Maximum(dim_, DimOf(other)));
}

SymNode SizeNode::sym_float() {
  return Float(sizes_->IsFloat(dim_) ? dim_ : sizes_->Table().Make(ExprKind::kToFloat, dim_));
}

// ---------------------------------------------------------------- comparisons

SymNode SizeNode::Compare(ExprKind comparison, const SymNode& left, const SymNode& right) const {
  if (left->is_float() || right->is_float()) {
    return Bool(sizes_->Table().Make(comparison, FloatDimOf(left), FloatDimOf(right)));
  }
  const Dim a = DimOf(left), b = DimOf(right);
  if (const auto known = sizes_->Algebra().Decide(comparison, a, b)) return Bool(Dim(*known ? 1 : 0));
  return Bool(sizes_->Table().Make(comparison, a, b));
}

namespace {
// A node over itself, for the moment of a call.
SymNode Self(SizeNode* node) { return c10::intrusive_ptr<c10::SymNodeImpl>::reclaim_copy(node); }
}  // namespace

SymNode SizeNode::eq(const SymNode& other) { return Compare(ExprKind::kEq, Self(this), other); }
SymNode SizeNode::ne(const SymNode& other) { return Compare(ExprKind::kNe, Self(this), other); }
SymNode SizeNode::lt(const SymNode& other) { return Compare(ExprKind::kLt, Self(this), other); }
SymNode SizeNode::le(const SymNode& other) { return Compare(ExprKind::kLe, Self(this), other); }
SymNode SizeNode::gt(const SymNode& other) { return Compare(ExprKind::kLt, other, Self(this)); }
SymNode SizeNode::ge(const SymNode& other) { return Compare(ExprKind::kLe, other, Self(this)); }

SymNode SizeNode::sym_or(const SymNode& other) {
  if (const auto known = constant_bool()) return *known ? wrap_bool(true) : Bool(DimOf(other));
  const Dim right = DimOf(other);
  if (right.is_constant()) return right.constant() != 0 ? wrap_bool(true) : clone();
  return Bool(sizes_->Table().Make(ExprKind::kOr, dim_, right));
}

SymNode SizeNode::sym_and(const SymNode& other) {
  if (const auto known = constant_bool()) return *known ? Bool(DimOf(other)) : wrap_bool(false);
  const Dim right = DimOf(other);
  if (right.is_constant()) return right.constant() != 0 ? clone() : wrap_bool(false);
  return Bool(sizes_->Table().Make(ExprKind::kAnd, dim_, right));
}

SymNode SizeNode::sym_not() {
  if (const auto known = constant_bool()) return wrap_bool(!*known);
  return Bool(sizes_->Table().Make(ExprKind::kNot, dim_));
}

SymNode SizeNode::sym_ite(const SymNode& then_value, const SymNode& else_value) {
  return guard_bool(__FILE__, __LINE__) ? then_value : else_value;
}

// ---------------------------------------------------------------- layouts

// Whether it is so for all sizes, 0 and 1 among them: then nobody need ask for any.
bool SizeNode::IsLaidOut(Nodes sizes, Nodes strides, absl::Span<const std::size_t> fastest_first) {
  ir::DimAlgebra algebra = sizes_->Algebra();
  Dim expected(1);
  for (const std::size_t d : fastest_first) {
    if (algebra.Decide(ExprKind::kEq, DimOf(strides[d]), expected) != std::optional(true)) return false;
    expected = algebra.Multiply(expected, DimOf(sizes[d]));
  }
  return true;
}

// Whether each dimension's stride is the product of the sizes of those before it in `fastest_first`.
SymNode SizeNode::InOrder(Nodes sizes, Nodes strides, std::initializer_list<std::size_t> fastest_first) {
  if (IsLaidOut(sizes, strides, fastest_first)) return wrap_bool(true);
  for (const SymNode& size : sizes) {
    if (sizes_->Decide(ExprKind::kEq, DimOf(size), Dim(0))) return wrap_bool(true);
  }
  Dim expected(1);
  for (const std::size_t d : fastest_first) {
    const Dim size = DimOf(sizes[d]);
    if (sizes_->Decide(ExprKind::kEq, size, Dim(1))) continue;
    if (!sizes_->Decide(ExprKind::kEq, DimOf(strides[d]), expected)) return wrap_bool(false);
    expected = sizes_->Algebra().Multiply(expected, size);
  }
  return wrap_bool(true);
}

SymNode SizeNode::is_contiguous(Nodes sizes, Nodes strides) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.rbegin(), order.rend(), 0);
  if (IsLaidOut(sizes, strides, order)) return wrap_bool(true);
  for (const SymNode& size : sizes) {
    if (sizes_->Decide(ExprKind::kEq, DimOf(size), Dim(0))) return wrap_bool(true);
  }
  Dim expected(1);
  for (std::size_t d = sizes.size(); d-- > 0;) {
    const Dim size = DimOf(sizes[d]);
    if (sizes_->Decide(ExprKind::kEq, size, Dim(1))) continue;
    if (!sizes_->Decide(ExprKind::kEq, DimOf(strides[d]), expected)) return wrap_bool(false);
    expected = sizes_->Algebra().Multiply(expected, size);
  }
  return wrap_bool(true);
}

SymNode SizeNode::is_channels_last_contiguous_2d(Nodes sizes, Nodes strides) {
  return sizes.size() == 4 ? InOrder(sizes, strides, {1, 3, 2, 0}) : wrap_bool(false);
}

SymNode SizeNode::is_channels_last_contiguous_3d(Nodes sizes, Nodes strides) {
  return sizes.size() == 5 ? InOrder(sizes, strides, {1, 4, 3, 2, 0}) : wrap_bool(false);
}

// As torch's is_channels_last_strides_2d_s4 and _3d_s5.
bool SizeNode::HasChannelsLastStrides(Nodes sizes, Nodes strides, std::initializer_list<std::size_t> fastest_first) {
  if (sizes.size() != fastest_first.size()) return false;
  if (sizes_->Decide(ExprKind::kEq, DimOf(strides[1]), Dim(0))) return false;
  Dim least(0);
  for (const std::size_t d : fastest_first) {
    const Dim size = DimOf(sizes[d]), stride = DimOf(strides[d]);
    if (sizes_->Decide(ExprKind::kEq, size, Dim(0)) || sizes_->Decide(ExprKind::kLt, stride, least)) return false;
    if (d == 0 && sizes_->Decide(ExprKind::kEq, least, DimOf(strides[1]))) return false;
    least = sizes_->Decide(ExprKind::kLt, Dim(1), size) ? sizes_->Algebra().Multiply(stride, size) : stride;
  }
  return true;
}

c10::SymNode SizeNode::is_channels_last_strides_2d(Nodes sizes, Nodes strides) {
  return wrap_bool(HasChannelsLastStrides(sizes, strides, {1, 3, 2, 0}));
}

c10::SymNode SizeNode::is_channels_last_strides_3d(Nodes sizes, Nodes strides) {
  return wrap_bool(HasChannelsLastStrides(sizes, strides, {1, 4, 3, 2, 0}));
}

// In the order of today's strides. If that one does not do, none does where the order is the same, and the first gap or
// overlap is one.
SymNode SizeNode::is_non_overlapping_and_dense(Nodes sizes, Nodes strides) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return sizes_->HintOf(DimOf(strides[a])) < sizes_->HintOf(DimOf(strides[b]));
  });
  if (IsLaidOut(sizes, strides, order)) return wrap_bool(true);
  Dim expected(1);
  std::optional<Dim> gap;  // the stride before which it is
  for (const std::size_t d : order) {
    const Dim size = DimOf(sizes[d]), stride = DimOf(strides[d]);
    const bool may_be_empty = sizes_->Algebra().Lowest(size).value_or(0) < 1;
    const bool single =
        may_be_empty ? sizes_->Decide(ExprKind::kLt, size, Dim(2)) : sizes_->Decide(ExprKind::kEq, size, Dim(1));
    if (single) continue;
    if (gap) {
      (void)sizes_->Decide(ExprKind::kLe, *gap, stride);
    } else if (sizes_->HintOf(stride) != sizes_->HintOf(expected)) {
      gap = stride;
      const bool overlaps = sizes_->HintOf(stride) < sizes_->HintOf(expected);
      (void)sizes_->Decide(ExprKind::kLt, overlaps ? stride : expected, overlaps ? expected : stride);
    } else {
      (void)sizes_->Decide(ExprKind::kEq, stride, expected);
      expected = sizes_->Algebra().Multiply(expected, size);
    }
  }
  return wrap_bool(!gap);
}

// ---------------------------------------------------------------- numbers

namespace {
// The engine asks whether a gradient is to be summed up to a size of 1. One of the same size is not, also if that is 1.
bool IsEngineThatSums(const char* file) {
  if (file == nullptr) return false;
  const Recorder* recorder = Recorder::Current();
  const std::string_view name(file);
  return (name.ends_with("/input_metadata.cpp") || name.ends_with("/ExpandUtils.h")) && recorder != nullptr &&
         recorder->phase() == ir::Phase::kBackward;
}

bool AsksWhetherUnbackedIsOne(const ir::ExprTable& table, Dim condition) {
  if (condition.is_constant()) return false;
  const ir::Expr& e = table[condition.expr];
  if (e.kind != ExprKind::kEq || e.left == ir::kNoExpr || e.right == ir::kNoExpr) return false;
  const auto is_one = [&](ir::ExprId id) { return table[id].kind == ExprKind::kConstant && table[id].value == 1; };
  return (is_one(e.left) || is_one(e.right)) && table.LastUnbacked(condition) >= 0;
}
}  // namespace

std::int64_t SizeNode::guard_int(const char* file, std::int64_t) {
  TORCH_CHECK(kind_ == Kind::kInt, "framefuse: not an integer");
  if (file != nullptr && std::string_view(file).ends_with("ReduceOps.cpp")) {  // of cumprod_backward
    Recorder* recorder = Recorder::Current();
    if (recorder != nullptr && AsksForSeveral(*recorder, dim_)) return sizes_->HintOf(dim_);
  }
  return sizes_->Pin(dim_);
}

bool SizeNode::guard_bool(const char* file, std::int64_t) {
  TORCH_CHECK(kind_ == Kind::kBool, "framefuse: not a truth value");
  if (IsEngineThatSums(file) && AsksWhetherUnbackedIsOne(sizes_->Table(), dim_)) return false;
  return sizes_->DecideBool(dim_);
}

double SizeNode::guard_float(const char*, std::int64_t) {
  return kind_ == Kind::kFloat ? sizes_->PinFloat(dim_) : static_cast<double>(sizes_->Pin(dim_));
}

// In the text of an error, which the program may see: it holds for this number.
std::string SizeNode::str() {
  if (kind_ == Kind::kFloat) return std::to_string(guard_float(__FILE__, __LINE__));
  if (kind_ == Kind::kBool) return guard_bool(__FILE__, __LINE__) ? "True" : "False";
  return std::to_string(sizes_->Pin(dim_));
}

std::optional<std::int64_t> SizeNode::constant_int() {
  return kind_ == Kind::kInt && dim_.is_constant() ? std::optional(dim_.constant()) : std::nullopt;
}

std::optional<bool> SizeNode::constant_bool() {
  if (kind_ != Kind::kBool) return std::nullopt;
  if (dim_.is_constant()) return dim_.constant() != 0;
  const ir::Expr& e = sizes_->Table()[dim_.expr];
  return e.kind == ExprKind::kConstant ? std::optional(e.value != 0) : std::nullopt;
}

bool SizeNode::is_constant() {
  const bool is_float = kind_ == Kind::kFloat;
  if (is_float) return dim_.is_constant() || sizes_->Table()[dim_.expr].kind == ExprKind::kConstant;
  return dim_.is_constant() || constant_bool().has_value();
}

namespace {
using Question = SymNode (c10::SymNodeImpl::*)(c10::ArrayRef<SymNode>, c10::ArrayRef<SymNode>);
std::optional<bool> Ask(Question question, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides) {
  SymNode any;
  for (const c10::SymIntArrayRef list : {sizes, strides}) {
    for (const c10::SymInt& s : list) {
      if (s.is_heap_allocated() && !any) any = s.toSymNode();
    }
  }
  if (!any) return std::nullopt;
  std::vector<SymNode> nodes[2];
  for (const c10::SymInt& s : sizes) nodes[0].push_back(s.wrap_node(any));
  for (const c10::SymInt& s : strides) nodes[1].push_back(s.wrap_node(any));
  return ((*any).*question)(nodes[0], nodes[1])->guard_bool(__FILE__, __LINE__);
}
}  // namespace

std::optional<bool> IsContiguous(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides) {
  return Ask(&c10::SymNodeImpl::is_contiguous, sizes, strides);
}

std::optional<bool> IsNonOverlappingAndDense(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides) {
  return Ask(&c10::SymNodeImpl::is_non_overlapping_and_dense, sizes, strides);
}

std::int64_t HintOf(const c10::SymInt& s) {
  if (const auto plain = s.maybe_as_int()) return *plain;
  const auto* own = dynamic_cast<const SizeNode*>(s.toSymNodeImplUnowned());
  return own != nullptr ? own->sizes()->HintOf(own->dim()) : s.guard_int(__FILE__, __LINE__);
}

c10::SymInt Plain(const c10::SymInt& s) {
  const auto number = s.maybe_as_int();
  return number ? c10::SymInt(*number) : s;
}

}  // namespace framefuse::tracing
