// Rows about operators: names that this torch has, facts that reach an operator by its rows, forms found by names.
#include "backends/graph/operators.h"

#include <gtest/gtest.h>

#include <string>

#include "backends/graph/op_forms.h"

namespace framefuse::ir {
namespace {

OpId Found(const char* name) {
  const absl::StatusOr<OpId> op = FindOp(name);
  EXPECT_TRUE(op.ok()) << op.status();
  return *op;
}

TEST(Operators, RowsNameOperatorsOfThisTorch) {
  for (std::size_t i = 1; i < kOpNames; ++i) {
    const auto name = static_cast<OpName>(i);
    const std::string text(TextOf(name));
    if (!text.starts_with("aten.")) continue;  // registered by libraries that may not be loaded
    const absl::StatusOr<OpId> op = FindOp(text);
    ASSERT_TRUE(op.ok()) << text;
    EXPECT_EQ(NameOf(*op), name) << text;
    EXPECT_EQ((*op)->name(), text);
    EXPECT_EQ(RequireOp(name), *op);
  }
}

TEST(Operators, AFactComesFromEachKindOfRow) {
  EXPECT_TRUE(Has(Found("aten._to_copy"), OpFact::kPointwise));           // its own
  EXPECT_TRUE(Has(Found("aten.sum.dim_IntList"), OpFact::kNeverRaises));  // of all overloads
  EXPECT_TRUE(Has(Found("aten._foreach_add.List"), OpFact::kForeach));    // of a beginning
  EXPECT_TRUE(Has(Found("aten.gelu_backward"), OpFact::kBelieves));       // of a part
  EXPECT_TRUE(Has(Found("aten.gelu_backward"), OpFact::kAten));
  EXPECT_FALSE(Has(Found("aten.sum.dim_IntList"), OpFact::kRaisesOnCpu));
  EXPECT_FALSE(Has(Found("quantized.relu6"), OpFact::kAten));
}

TEST(Operators, WhatIsDeterminedSoAreItsOtherForms) {
  for (const char* name : {"aten.add.Tensor", "aten._foreach_add.List"}) {
    EXPECT_TRUE(Has(Found(name), OpFact::kDetermined)) << name;
    EXPECT_FALSE(Has(Found(name), OpFact::kDeterminedWrite)) << name;
  }
  for (const char* name : {"aten.add_.Tensor", "aten._foreach_add_.List", "aten.copy_"}) {
    EXPECT_TRUE(Has(Found(name), OpFact::kDeterminedWrite)) << name;
    EXPECT_FALSE(Has(Found(name), OpFact::kDetermined)) << name;
  }
  EXPECT_FALSE(Has(Found("aten.add.out"), OpFact::kDeterminedWrite));  // may be resized
  EXPECT_FALSE(Has(Found("aten.bernoulli_.float"), OpFact::kDeterminedWrite));
}

TEST(Operators, AnUnknownOneHasNoName) {
  const OpId op = Found("aten.igamma");
  EXPECT_EQ(NameOf(op), OpName::kUnknown);
  EXPECT_FALSE(OpNames{OpName::kMm}.contains(op));
  EXPECT_EQ((ByOp<int>{{OpName::kMm, 2}}[op]), 0);
  EXPECT_EQ((ByOp<int>{{OpName::kMm, 2}}[RequireOp(OpName::kMm)]), 2);
}

TEST(Operators, FormsAreFoundByNames) {
  const auto element = [](const char* name) {
    const OpId op = ElementForm(Found(name));
    return op == nullptr ? std::string() : op->name();
  };
  EXPECT_EQ(element("aten._foreach_add.List"), "aten.add.Tensor");
  EXPECT_EQ(element("aten._foreach_mul.ScalarList"), "aten.mul.Scalar");
  EXPECT_EQ(element("aten._foreach_maximum.List"), "aten.maximum");
  EXPECT_EQ(element("aten._foreach_pow.Scalar"), "aten.pow.Tensor_Scalar");
  EXPECT_EQ(element("aten._foreach_addcdiv.Scalar"), "aten.addcdiv");
  EXPECT_EQ(element("aten._foreach_addcdiv.ScalarList"), "");
  EXPECT_EQ(element("aten._foreach_lerp.Scalar"), "aten.lerp.Scalar");
  EXPECT_EQ(element("aten._foreach_sqrt"), "aten.sqrt");
  EXPECT_EQ(element("aten.sqrt"), "");
  EXPECT_EQ(NumberForm(Found("aten.add.Tensor"))->name(), "aten.add.Scalar");
  EXPECT_EQ(NumberForm(Found("aten.atan2")), nullptr);
}

}  // namespace
}  // namespace framefuse::ir
