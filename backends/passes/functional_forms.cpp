#include "backends/passes/functional_forms.h"
#include "backends/graph/operators.h"
#include "common/index.h"

#include <string>
#include <utility>
#include <vector>

namespace framefuse {
namespace {

// Whose functional form is not found by name.
constexpr ir::ByOp<ir::OpName> kIrregular{
    {ir::OpName::kBernoulli_Float, ir::OpName::kBernoulliP},
    {ir::OpName::kFloorDivide_Tensor, ir::OpName::kFloorDivide},
    {ir::OpName::kNormal_, ir::OpName::kNormalFunctional},
    {ir::OpName::kPow_Scalar, ir::OpName::kPowTensorScalar},
    {ir::OpName::kPow_Tensor, ir::OpName::kPowTensorTensor},
    {ir::OpName::kRreluWithNoise_, ir::OpName::kRreluWithNoiseFunctional},
};

// "aten.add_.Tensor" → {"aten.add_", ".Tensor"}
std::pair<std::string, std::string> SplitOverload(const std::string& name) {
  std::size_t dot = name.find('.', name.find('.') + 1);
  if (dot == std::string::npos) return {name, ""};
  return {name.substr(0, dot), name.substr(dot)};
}

std::vector<std::string> CandidateNames(const ir::Op& op) {
  const ir::OpName irregular = kIrregular[&op];
  if (irregular != ir::OpName::kUnknown) return {std::string(ir::TextOf(irregular))};
  auto [base, overload] = SplitOverload(op.name());
  std::vector<std::string> names;
  if (base.back() == '_') names.push_back(base.substr(0, base.size() - 1) + overload);
  names.push_back(base + "_functional" + overload);
  return names;
}

// "aten.div.out", "aten.pow.Tensor_Scalar_out"
std::vector<std::string> NamesWithoutOut(const ir::Op& op) {
  const auto [base, overload] = SplitOverload(op.name());
  if (overload == ".out") return {base, base + ".Tensor"};
  if (!overload.ends_with("_out")) return {};
  return {base + overload.substr(0, overload.size() - 4)};
}

bool Fits(const ir::Op& op, const ir::Op& form, const FunctionalForm& facts) {
  const std::size_t arguments = op.arguments().size() - (facts.is_out ? facts.written.size() : 0);
  if (form.mutates() || form.arguments().size() != arguments) return false;
  for (std::size_t a = 0; a < arguments; ++a) {
    if (form.arguments()[a].type != op.arguments()[a].type) return false;
  }
  if (form.returns().size() != facts.own_returns + facts.written.size()) return false;
  for (std::size_t w = 0; w < facts.written.size(); ++w) {
    bool list = op.arguments()[At(facts.written[w])].type == ir::ArgType::kTensorList;
    if (list != (form.returns()[facts.own_returns + w].type == ir::ArgType::kTensorList)) return false;
  }
  return true;
}

}  // namespace

FunctionalForm FunctionalFormOf(const ir::Op& op) {
  FunctionalForm facts;
  for (std::size_t a = 0; a < op.arguments().size(); ++a) {
    if (op.arguments()[a].written) facts.written.push_back(static_cast<std::int32_t>(a));
  }
  for (const ir::OpReturn& r : op.returns()) facts.own_returns += r.written_argument < 0 ? 1 : 0;
  const auto look = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      absl::StatusOr<ir::OpId> found = ir::FindOp(name);
      if (found.ok() && Fits(op, **found, facts)) facts.op = *found;
      if (facts.op != nullptr) return;
    }
  };
  look(CandidateNames(op));
  const bool last = facts.written.size() == 1 && op.arguments().back().written;
  if (facts.op == nullptr && last && facts.own_returns == 0) {
    facts.is_out = true;
    look(NamesWithoutOut(op));
  }
  return facts;
}

c10::ScalarType PromotedType(const ir::Graph& graph, const ir::Node& node) {
  // As ResultTypeState: tensors with dimensions win over 0-dim ones, those over Python numbers, within a category.
  constexpr c10::ScalarType kNone = c10::ScalarType::Undefined;
  c10::ScalarType by_rank[3] = {kNone, kNone, kNone};
  auto join = [](c10::ScalarType a, c10::ScalarType b) {
    return a == kNone ? b : b == kNone ? a : c10::promoteTypes(a, b);
  };
  auto category = [](c10::ScalarType t) {
    if (c10::isComplexType(t)) return 3;
    if (c10::isFloatingType(t)) return 2;
    return t == c10::ScalarType::Bool ? 0 : 1;
  };
  for (const ir::Arg& a : node.args) {
    ir::ForEachValue(a, [&](ir::ValueId id) {
      const ir::Value& v = graph.value(id);
      if (v.kind != ir::ValueKind::kTensor) return;
      c10::ScalarType& slot = by_rank[v.wrapped_number ? 2 : v.rank() == 0 ? 1 : 0];
      slot = join(slot, v.dtype);
    });
    if (a.kind == ir::Arg::Kind::kConstant && a.constant.isDouble())
      by_rank[2] = join(by_rank[2], c10::ScalarType::Float);
  }
  auto combine = [&](c10::ScalarType strong, c10::ScalarType weak) {
    if (strong == kNone || weak == kNone) return strong == kNone ? weak : strong;
    return category(weak) > category(strong) ? c10::promoteTypes(strong, weak) : strong;
  };
  return combine(combine(by_rank[0], by_rank[1]), by_rank[2]);
}

bool ReturnsBool(const ir::Op& op) { return ir::Has(&op, ir::OpFact::kGivesBools); }

c10::ScalarType ComputedType(const ir::Graph& graph, const ir::Node& recorded, const ir::Node& form) {
  if (ReturnsBool(*recorded.op)) return c10::ScalarType::Bool;
  if (form.op->is_pointwise() && !ir::Is(form.op, ir::OpName::kCopy)) return PromotedType(graph, form);
  if (ir::Is(form.op, ir::OpName::kCumsum) || ir::Is(form.op, ir::OpName::kCumprod)) {
    const c10::ScalarType own = graph.value(form.args[0].value).dtype;
    const bool widens = c10::isIntegralType(own, /*includeBool=*/true) && form.args[2].kind == ir::Arg::Kind::kNone;
    if (widens) return c10::ScalarType::Long;
  }
  return c10::ScalarType::Undefined;
}

c10::ScalarType ComputedTypeInList(const ir::Graph& graph, const ir::Node& form, std::size_t element) {
  const bool promotes = ir::Has(form.op, ir::OpFact::kForeach) && !ir::Is(form.op, ir::OpName::k_ForeachCopy);
  if (!promotes) return c10::ScalarType::Undefined;
  ir::Node one;
  one.op = form.op;
  for (const ir::Arg& arg : form.args) {
    const bool list = arg.kind == ir::Arg::Kind::kValueList && element < arg.values.size();
    one.args.push_back(list ? ir::Arg::OfValue(arg.values[element]) : arg);
  }
  return PromotedType(graph, one);
}

bool MakesWhatIsThere(ir::Graph& graph, const ir::Node& recorded, ir::OpId form) {
  using enum ir::OpName;
  static constexpr ir::OpNames kByRow{kAddmm, kBaddbmm, kBmm, kCat, kMm, kMv};
  if (!form->is_pointwise() && !kByRow.contains(form)) return false;
  const ir::Value& out = graph.value(recorded.args.back().value);
  bool alike = c10::isFloatingType(out.dtype);
  for (const ir::Arg& a : recorded.args) {
    ir::ForEachValue(a, [&](ir::ValueId id) {
      const ir::Value& v = graph.value(id);
      const bool rows = v.rank() <= 1 || ir::IsContiguous(graph.exprs, v);
      alike = alike && v.kind == ir::ValueKind::kTensor && (v.wrapped_number || v.dtype == out.dtype) && rows;
    });
  }
  return alike;
}

}  // namespace framefuse
