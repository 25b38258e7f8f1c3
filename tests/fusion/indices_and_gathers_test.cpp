// Indices of extremes and row gathers in groups, against ATen: as machine code, as CUDA text and as PTX, in the forms
// that small and large shapes take.
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backends/fusion/fused_executable.h"
#include "backends/runtime/aten_sequence.h"
#include "common/status.h"
#include "tests/kernels/cuda_emulation.h"
#include "tests/kernels/ptx_emulation.h"

namespace framefuse {
namespace {

using absl::StrCat;
using Shape = std::vector<std::int64_t>;

std::string Text(const Shape& shape) {
  std::string out = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) out += (d > 0 ? ", " : "") + std::to_string(shape[d]);
  return out + "]";
}

// Results that are equal, in kernels of ours.
void ExpectEqual(const std::string& text, const std::vector<at::Tensor>& inputs, bool in_kernels = true) {
  absl::StatusOr<ir::Graph> graph = ir::Parse(text);
  ASSERT_TRUE(graph.ok()) << MessageOf(graph.status()) << "\n" << text;
  auto fused = fusion::FusedExecutable::Create(*graph, {});
  auto aten = AtenSequence::Create(*graph, {});
  ASSERT_TRUE(fused.ok() && aten.ok());
  std::vector<at::Tensor> a(graph->outputs.size()), b(graph->outputs.size());
  ASSERT_TRUE((*fused)->Run(inputs, {}, absl::MakeSpan(a)).ok()) << text;
  ASSERT_TRUE((*aten)->Run(inputs, {}, absl::MakeSpan(b)).ok()) << text;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::equal(a[i].nan_to_num(7.5), b[i].nan_to_num(7.5))) << "output " << i << "\n" << text;
  }
  std::string plan;
  for (const PlanGroup& group : (*fused)->Explain()) plan += group.description + "\n";
  EXPECT_EQ(!absl::StrContains(plan, "aten."), in_kernels) << plan << text;
}

// Of few numbers, so that many are equal; some are none.
at::Tensor Numbers(const Shape& shape, at::ScalarType type) {
  at::Tensor t = at::randn(shape).mul(2).round();
  if (type == at::kFloat) t = t.masked_fill(at::randn(shape).gt(2.5), NAN);
  return t.to(type);
}

void ExpectIndicesOf(const Shape& shape, std::int64_t dim, bool last_apart) {
  // Kept dimensions that lie in another order than the results' are no columns.
  const bool in_kernels = !(last_apart && shape.size() > 2 && dim == 0);
  Shape kept = shape;
  kept[static_cast<std::size_t>(dim)] = 1;
  for (const auto& [name, type] : {std::pair("f32", at::kFloat), {"bf16", at::kBFloat16}, {"i64", at::kLong}}) {
    at::Tensor x = Numbers(shape, type);
    std::string strides;
    if (last_apart) {
      x = x.transpose(-1, -2).contiguous().transpose(-1, -2);
      strides = StrCat("{strides=", Text(x.strides().vec()), "}");
    }
    ExpectEqual(StrCat("graph \"indices\" functional\ninput %0: ", name, Text(shape), strides, " argument\n%1: ", name,
                       Text(shape), strides, " = aten.neg(%0)\n%2: i64", Text(kept), " = aten.argmax(%1, ", dim,
                       ", True)\n%3: i64", Text(kept), " = aten.argmin(%1, ", dim, ", True)\n%4: ", name, Text(kept),
                       " = aten.amax(%1, [", dim, "], True)\noutput %2 user\noutput %3 user\noutput %4 user\n"),
                {x}, in_kernels);
  }
}

void ExpectIndices(bool large) {
  at::manual_seed(0);
  for (const Shape& shape : {Shape{5, 33}, {3, 4, 17}, {40, 70}}) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      ExpectIndicesOf(shape, static_cast<std::int64_t>(d), false);
      ExpectIndicesOf(shape, static_cast<std::int64_t>(d), true);
    }
  }
  ExpectIndicesOf({1100, 3}, 0, false);  // in parts
  if (!large) return;
  ExpectIndicesOf({1, 70001}, 1, false);
  ExpectIndicesOf({2, 131072}, 1, false);
}

void ExpectGathers() {
  at::manual_seed(0);
  for (const std::int64_t wide : {32, 257}) {
    for (const auto& [name, type] : {std::pair("f32", at::kFloat), {"bf16", at::kBFloat16}}) {
      const Shape out = {3, 7, wide}, table = {50, wide};
      const std::string head = StrCat("graph \"gathers\" functional\ninput %0: ", name, Text(table),
                                      " argument\ninput %1: i64[3, 7] argument\n%2: ", name, Text(out), " = ");
      const std::string tail = StrCat("%3: ", name, Text(out), " = aten.relu(%2)\n%4: ", name, "[3, 7, 1]",
                                      " = aten.amax(%3, [2], True)\noutput %3 user\noutput %4 user\n");
      const at::Tensor values = at::randn(table).to(type);
      ExpectEqual(StrCat(head, "aten.embedding(%0, %1)\n", tail), {values, at::randint(0, 50, {3, 7}, at::kLong)});
      ExpectEqual(StrCat(head, "aten.index.Tensor(%0, [%1])\n", tail),
                  {values, at::randint(-50, 50, {3, 7}, at::kLong)});
    }
  }
}

TEST(IndicesAndGathers, AsMachineCode) {
  ExpectIndices(true);
  ExpectGathers();
}

TEST(IndicesAndGathers, AsCudaText) {
  if (!testing::HostCompilerExists()) GTEST_SKIP() << "no C++ compiler";
  cuda::SetEngineForTesting(testing::MakeEmulatedEngine());
  at::manual_seed(0);
  ExpectIndicesOf({5, 33}, 1, false);
  ExpectIndicesOf({40, 70}, 0, false);
  ExpectIndicesOf({1100, 3}, 0, false);
  ExpectIndicesOf({2, 32768}, 1, false);
  ExpectGathers();
  cuda::SetEngineForTesting(nullptr);
}

TEST(IndicesAndGathers, AsPtx) {
  int printed = 0;
  cuda::SetEngineForTesting(testing::MakePtxEngine(&printed));
  ExpectIndices(false);
  ExpectIndicesOf({1, 20001}, 1, false);
  ExpectGathers();
  EXPECT_GT(printed, 0);
  cuda::SetEngineForTesting(nullptr);
}

// In eager's order: equal to the last bit.
TEST(Scans, AddInOrder) {
  at::manual_seed(0);
  for (const auto& [name, type] : {std::pair("f32", at::kFloat), {"f64", at::kDouble}, {"i64", at::kLong}}) {
    for (const std::int64_t dim : {0, 1, 2}) {
      const at::Tensor x = at::randn({9, 33, 70}).mul(1000).to(type);
      const std::string all = StrCat(name, "[9, 33, 70]");
      ExpectEqual(
          StrCat("graph \"scan\" functional\ninput %0: ", all, " argument\n%1: ", all, " = aten.neg(%0)\n%2: ", all,
                 " = aten.cumsum(%1, ", dim, ")\n%3: ", all, " = aten.abs(%2)\noutput %3 user\noutput %2 user\n"),
          {x});
    }
  }
}

// Nothing else reads the rows: an operator copies them.
TEST(IndicesAndGathers, AGatherAloneIsAten) {
  ExpectEqual(
      "graph \"alone\" functional\ninput %0: f32[50, 64] argument\ninput %1: i64[7] argument\n"
      "%2: f32[7, 64] = aten.index_select(%0, 0, %1)\noutput %2 user\n",
      {at::randn({50, 64}), at::randint(0, 50, {7}, at::kLong)}, false);
}

}  // namespace
}  // namespace framefuse
