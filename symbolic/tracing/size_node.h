// SizeNode: a symbolic number as torch carries it: the node of a SymInt, SymBool or SymFloat.
// Invariant: immutable; a node that became a constant says so (constant_int), but stays on the heap: where a number is
// looked at without asking its node, Plain comes first.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_SIZE_NODE_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_SIZE_NODE_H_

#include <c10/core/SymNodeImpl.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/types/span.h"
#include "symbolic/tracing/sizes.h"

namespace framefuse::tracing {

class SizeNode final : public c10::SymNodeImpl {
 public:
  enum class Kind : std::uint8_t { kInt, kBool, kFloat };
  SizeNode(std::shared_ptr<Sizes> sizes, Kind kind, ir::Dim dim) : sizes_(std::move(sizes)), kind_(kind), dim_(dim) {}

  Kind kind() const { return kind_; }
  ir::Dim dim() const { return dim_; }
  const Sizes* sizes() const { return sizes_.get(); }

  bool is_int() override { return kind_ == Kind::kInt; }
  bool is_bool() override { return kind_ == Kind::kBool; }
  bool is_float() override { return kind_ == Kind::kFloat; }

  c10::SymNode add(const c10::SymNode& other) override;
  c10::SymNode sub(const c10::SymNode& other) override;
  c10::SymNode mul(const c10::SymNode& other) override;
  c10::SymNode truediv(const c10::SymNode& other) override;
  c10::SymNode pow(const c10::SymNode& other) override;
  c10::SymNode floordiv(const c10::SymNode& other) override;
  c10::SymNode mod(const c10::SymNode& other) override;
  c10::SymNode eq(const c10::SymNode& other) override;
  c10::SymNode ne(const c10::SymNode& other) override;
  c10::SymNode gt(const c10::SymNode& other) override;
  c10::SymNode lt(const c10::SymNode& other) override;
  c10::SymNode le(const c10::SymNode& other) override;
  c10::SymNode ge(const c10::SymNode& other) override;
  c10::SymNode ceil() override;
  c10::SymNode floor() override;
  c10::SymNode neg() override;
  c10::SymNode sym_min(const c10::SymNode& other) override;
  c10::SymNode sym_max(const c10::SymNode& other) override;
  c10::SymNode sym_or(const c10::SymNode& other) override;
  c10::SymNode sym_and(const c10::SymNode& other) override;
  c10::SymNode sym_not() override;
  c10::SymNode sym_ite(const c10::SymNode& then_value, const c10::SymNode& else_value) override;
  using Nodes = c10::ArrayRef<c10::SymNode>;
  c10::SymNode is_contiguous(Nodes sizes, Nodes strides) override;
  c10::SymNode is_channels_last_contiguous_2d(Nodes sizes, Nodes strides) override;
  c10::SymNode is_channels_last_contiguous_3d(Nodes sizes, Nodes strides) override;
  c10::SymNode is_channels_last_strides_2d(Nodes sizes, Nodes strides) override;
  c10::SymNode is_channels_last_strides_3d(Nodes sizes, Nodes strides) override;
  c10::SymNode is_non_overlapping_and_dense(Nodes sizes, Nodes strides) override;
  c10::SymNode clone() override;
  c10::SymNode sym_float() override;  // of a node that carries a float (Numbers::FloatToTorch) that float
  c10::SymNode wrap_int(std::int64_t number) override;
  c10::SymNode wrap_float(double number) override;
  c10::SymNode wrap_bool(bool value) override;
  std::int64_t guard_int(const char* file, std::int64_t line) override;
  bool guard_bool(const char* file, std::int64_t line) override;
  double guard_float(const char* file, std::int64_t line) override;
  std::int64_t int_() override { return guard_int(__FILE__, __LINE__); }
  bool bool_() override { return guard_bool(__FILE__, __LINE__); }
  bool has_hint() override { return true; }
  std::string str() override;
  std::optional<std::int64_t> constant_int() override;
  std::optional<bool> constant_bool() override;
  std::optional<std::int64_t> maybe_as_int() override { return constant_int(); }
  bool is_constant() override;
  bool is_symbolic() override { return !is_constant(); }

 private:
  c10::SymNode Int(ir::Dim d) const;
  c10::SymNode Bool(ir::Dim d) const;
  ir::Dim DimOf(const c10::SymNode& node) const;
  ir::Dim FloatDimOf(const c10::SymNode& node) const;  // of an integer its own
  double NumberOf(const c10::SymNode& node) const;
  bool IsNumber(const c10::SymNode& other) const;  // one of the two is a float
  c10::SymNode Float(ir::Dim d) const;
  c10::SymNode OfFloats(ir::ExprKind operation, const c10::SymNode& other) const;
  c10::SymNode Compare(ir::ExprKind comparison, const c10::SymNode& left, const c10::SymNode& right) const;
  bool HasChannelsLastStrides(Nodes sizes, Nodes strides, std::initializer_list<std::size_t> fastest_first);
  bool IsLaidOut(Nodes sizes, Nodes strides, absl::Span<const std::size_t> fastest_first);
  c10::SymNode InOrder(Nodes sizes, Nodes strides, std::initializer_list<std::size_t> fastest_first);

  std::shared_ptr<Sizes> sizes_;
  Kind kind_;
  ir::Dim dim_;
};

// Without the questions about 0 and 1 that torch asks first. Nothing: no size and no stride is symbolic.
std::optional<bool> IsContiguous(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides);
std::optional<bool> IsNonOverlappingAndDense(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides);
// The number in this call.
std::int64_t HintOf(const c10::SymInt& s);
// A number whose node is a constant as a plain one.
c10::SymInt Plain(const c10::SymInt& s);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_SIZE_NODE_H_
