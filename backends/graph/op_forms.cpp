#include "backends/graph/op_forms.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "backends/graph/operators.h"

namespace framefuse::ir {
namespace {

OpId Find(const std::string& name) {
  const absl::StatusOr<OpId> found = FindOp(name);
  return found.ok() ? *found : nullptr;
}

}  // namespace

OpId ElementForm(OpId op) {
  if (!Has(op, OpFact::kForeach)) return nullptr;
  const std::vector<std::string> parts = absl::StrSplit(op->name(), '.');
  const std::string function = absl::StrCat(parts[0], ".", parts[1].substr(std::string_view("_foreach_").size()));
  const std::string overload = parts.size() > 2 ? parts[2] : "";
  const auto is_one_of = [&](std::initializer_list<OpName> names) {
    for (const OpName n : names) {
      if (function == TextOf(n)) return true;
    }
    return false;
  };
  if (overload == "List" || overload == "Tensor") {
    return Find(is_one_of({OpName::kMaximum, OpName::kMinimum}) ? function : function + ".Tensor");
  }
  if (overload == "Scalar" && is_one_of({OpName::kAddcmul, OpName::kAddcdiv})) return Find(function);
  if (overload != "Scalar" && overload != "ScalarList") return Find(function);
  const OpId power = RequireOp(OpName::kPowTensorScalar);
  return power->name().starts_with(function + ".") ? power : Find(function + ".Scalar");
}

OpId NumberForm(OpId op) {
  constexpr std::string_view kTensor = ".Tensor";
  const std::string& name = op->name();
  if (!name.ends_with(kTensor)) return nullptr;
  return Find(name.substr(0, name.size() - kTensor.size()) + ".Scalar");
}

}  // namespace framefuse::ir
