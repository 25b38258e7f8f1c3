// Graphs in text form through the fused executable and through ATen operators: same results, and the groups that are
// expected. Each row states its graph and its groups.
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "backends/fusion/fused_executable.h"
#include "backends/runtime/aten_sequence.h"
#include "common/status.h"
#include "tests/kernels/cuda_emulation.h"
#include "tests/kernels/ptx_emulation.h"

namespace framefuse {
namespace {

struct Case {
  const char* name;
  const char* text;
  std::vector<const char*> groups;  // of the fused plan; an ATen step shows its operator
};

at::Tensor InputFor(const ir::Graph& g, const ir::Value& v) {
  std::vector<std::int64_t> sizes, strides;
  std::int64_t span = 1;
  for (const ir::Dim& d : v.sizes) sizes.push_back(g.exprs.Hint(d));
  for (const ir::Dim& d : v.strides) strides.push_back(g.exprs.Hint(d));
  for (std::size_t d = 0; d < sizes.size(); ++d) span += std::max<std::int64_t>(sizes[d] - 1, 0) * strides[d];
  at::Tensor t;
  if (c10::isFloatingType(v.dtype)) {
    t = at::randn({span}, at::kDouble).to(v.dtype);
  } else if (v.dtype == at::kBool) {
    t = at::rand({span}).gt(0.5);
  } else {
    t = at::randint(-100, 100, {span}, at::kLong).to(v.dtype);
  }
  return t.as_strided(sizes, strides);
}

class FusedGraph : public ::testing::TestWithParam<Case> {};

// `check_groups` false: what the groups are was checked before.
void ExpectEqualsAten(const Case& c, bool check_groups) {
  absl::StatusOr<ir::Graph> graph = ir::Parse(c.text);
  ASSERT_TRUE(graph.ok()) << MessageOf(graph.status());
  auto fused = fusion::FusedExecutable::Create(*graph, {});
  auto aten = AtenSequence::Create(*graph, {});
  ASSERT_TRUE(fused.ok()) << MessageOf(fused.status());
  ASSERT_TRUE(aten.ok()) << MessageOf(aten.status());
  std::vector<std::string> groups;
  for (const PlanGroup& g : (*fused)->Explain()) groups.push_back(g.description);
  const std::vector<std::string> expected(c.groups.begin(), c.groups.end());
  EXPECT_TRUE(!check_groups || groups == expected) << absl::StrJoin(groups, "\n");
  std::vector<at::Tensor> inputs;
  for (const ir::Input& input : graph->inputs) inputs.push_back(InputFor(*graph, graph->value(input.value)));
  std::vector<std::int64_t> symbols;
  for (const ir::Symbol& s : graph->exprs.symbols()) symbols.push_back(s.hint);
  std::vector<at::Tensor> a(graph->outputs.size()), b(graph->outputs.size());
  const absl::Status first = (*fused)->Run(inputs, symbols, absl::MakeSpan(a));
  ASSERT_TRUE(first.ok()) << MessageOf(first);
  ASSERT_TRUE((*aten)->Run(inputs, symbols, absl::MakeSpan(b)).ok());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!b[i].defined()) continue;
    ASSERT_EQ(a[i].sizes(), b[i].sizes());
    ASSERT_EQ(a[i].dtype(), b[i].dtype());
    EXPECT_EQ(a[i].strides(), b[i].strides());
    const bool half = b[i].dtype() == at::kBFloat16 || b[i].dtype() == at::kHalf;
    const at::Tensor expected_output = b[i].to(at::kDouble);
    // A sum that nearly cancels keeps the rounding of its terms, which ATen orders by the machine's vector width: the
    // largest result is a measure of it.
    const double largest = b[i].numel() == 0 ? 0 : expected_output.abs().nan_to_num(0, 0, 0).max().item().toDouble();
    const double tolerance = half ? 2e-2 : 2e-5;
    EXPECT_TRUE(at::allclose(a[i].to(at::kDouble), expected_output, tolerance, tolerance + 1e-6 * largest, true))
        << "output " << i << " differs by "
        << a[i].to(at::kDouble).sub(b[i].to(at::kDouble)).abs().max().item().toDouble();
  }
}

TEST_P(FusedGraph, EqualsAten) { ExpectEqualsAten(GetParam(), true); }

TEST_P(FusedGraph, EmulatedCudaEqualsAten) {
  if (!testing::HostCompilerExists()) GTEST_SKIP() << "no C++ compiler";
  cuda::SetEngineForTesting(testing::MakeEmulatedEngine());
  ExpectEqualsAten(GetParam(), false);
  cuda::SetEngineForTesting(nullptr);
}

TEST_P(FusedGraph, EmulatedPtxEqualsAten) {
  if (!testing::HostCompilerExists()) GTEST_SKIP() << "no C++ compiler";
  int printed = 0;
  cuda::SetEngineForTesting(testing::MakePtxEngine(&printed));
  ExpectEqualsAten(GetParam(), false);
  cuda::SetEngineForTesting(nullptr);
}

INSTANTIATE_TEST_SUITE_P(
    Text, FusedGraph,
    ::testing::Values(
        Case{"chain",
             R"(graph "g" functional
input %0: f32[33, 70] argument
input %1: f32[70] argument
%2: f32[33, 70] = aten.add.Tensor(%0, %1, alpha=1)
%3: f32[33, 70] = aten.gelu(%2, approximate="tanh")
%4: f32[33, 70] = aten.mul.Tensor(%3, %0)
output %4 user
)",
             {"pointwise: add, gelu, mul"}},
        Case{"mixed_types",
             R"(graph "g" functional
input %0: bf16[40, 9] argument
input %1: i32[40, 9] argument
%2: bf16[40, 9] = aten.mul.Tensor(%0, %1)
%3: bool[40, 9] = aten.gt.Scalar(%1, 3)
%4: bf16[40, 9] = aten.where.self(%3, %2, %0)
%5: f32[40, 9] = aten._to_copy(%4, dtype=f32)
output %4 user
output %5 user
output %3 user
)",
             {"pointwise: mul, gt, where, _to_copy"}},
        Case{"group_norm_and_activation",
             R"(graph "g" functional
input %0: bf16[3, 8, 5, 7] argument
input %1: bf16[8] argument
input %2: bf16[8] argument
%3: bf16[3, 8, 5, 7], %4: bf16[3, 4], %5: bf16[3, 4] = aten.native_group_norm(%0, %1, %2, 3, 8, 35, 4, 1e-05)
%6: bf16[3, 8, 5, 7] = aten.silu(%3)
output %6 user
output %4 user
output %5 user
)",
             {"aten.view", "aten.view", "aten.view",
              "row: _to_copy, sum, div, sub, mul, sum, div, add, rsqrt, mul, mul, add, _to_copy, _to_copy, _to_copy, "
              "silu",
              "aten.view", "aten.view", "aten.view"}},
        // Rows of several channels that fit in a block's registers, and whole vectors of them.
        Case{"group_norm_of_whole_vectors",
             R"(graph "g" functional
input %0: bf16[3, 8, 8, 8] argument
input %1: bf16[8] argument
input %2: bf16[8] argument
%3: bf16[3, 8, 8, 8], %4: bf16[3, 4], %5: bf16[3, 4] = aten.native_group_norm(%0, %1, %2, 3, 8, 64, 4, 1e-05)
%6: bf16[3, 8, 8, 8] = aten.silu(%3)
output %6 user
)",
             {"aten.view", "aten.view", "aten.view",
              "row: _to_copy, sum, div, sub, mul, sum, div, add, rsqrt, mul, mul, add, _to_copy, silu", "aten.view"}},
        Case{"batch_norm_of_inference",
             R"(graph "g" functional
input %0: f32[3, 8, 5, 7] argument
input %1: f32[8] argument
input %2: f32[8] argument
input %3: f32[8] argument
input %4: f32[8] argument
%9: f32[8] = aten.abs(%4)
%5: f32[3, 8, 5, 7], %6: f32[0], %7: f32[0] = aten._native_batch_norm_legit_no_training(%0, %1, %2, %3, %9, 0.1, 1e-05)
%8: f32[3, 8, 5, 7] = aten.relu(%5)
output %8 user
)",
             {"pointwise: abs", "aten.as_strided", "aten.as_strided", "aten.as_strided", "aten.as_strided",
              "pointwise: add, rsqrt, mul, mul, neg, add, mul, add, _to_copy, relu"}},
        Case{"cross_entropy",
             R"(graph "g" functional
input %0: f32[33, 70] argument
input %1: i64[33] argument
%2: i64[33] = aten.remainder.Scalar(%1, 70)
%3: f32[33, 70] = aten._log_softmax(%0, 1, False)
%4: f32[], %5: f32[] = aten.nll_loss_forward(%3, %2, None, 1, 7)
output %4 user
output %5 user
)",
             {"aten.remainder.Scalar", "row: amax, sub, exp, sum, log, sub, nll_loss_forward",
              "row: ne, _to_copy, sum, sum, div", "aten.view", "aten.view"}},
        Case{"loss_of_each_row",
             R"(graph "g" functional
input %0: bf16[33, 70] argument
input %1: i64[33] argument
input %2: bf16[70] argument
input %3: bf16[33] argument
%4: i64[33] = aten.remainder.Scalar(%1, 70)
%5: bf16[33, 70] = aten._log_softmax(%0, 1, False)
%6: bf16[33], %7: bf16[] = aten.nll_loss_forward(%5, %4, %2, 0, 7)
%8: bf16[33, 70] = aten.nll_loss_backward(%3, %5, %4, %2, 0, 7, %7)
%9: bf16[33, 70] = aten._log_softmax_backward_data(%8, %5, 1, bf16)
output %6 user
output %9 user
)",
             {"aten.unsqueeze", "pointwise: ne", "pointwise: _to_copy, neg", "aten.remainder.Scalar", "aten.unsqueeze",
              "pointwise: _to_copy",
              "row: _to_copy, amax, sub, exp, sum, log, sub, _to_copy, _to_copy, mul, nll_loss_forward, eq, "
              "logical_and, "
              "mul, where, _to_copy, _to_copy, sum, exp, mul, sub, _to_copy",
              "pointwise: _to_copy"}},
        Case{"weighted_loss",
             R"(graph "g" functional
input %0: f32[33, 70] argument
input %1: i64[33] argument
input %2: f32[70] argument
input %3: f32[] argument
%4: i64[33] = aten.remainder.Scalar(%1, 70)
%5: f32[], %6: f32[] = aten.nll_loss_forward(%0, %4, %2, 1, 7)
%7: f32[33, 70] = aten.nll_loss_backward(%3, %0, %4, %2, 1, 7, %6)
output %5 user
output %6 user
output %7 user
)",
             {"pointwise: ne", "aten.remainder.Scalar", "row: mul, nll_loss_forward", "aten.expand",
              "row: nll_loss_forward", "row: sum, neg, sum, div", "aten.view", "aten.view", "aten.unsqueeze",
              "pointwise: _to_copy", "pointwise: neg, div", "pointwise: mul", "pointwise: eq, logical_and, where"}},
        Case{"logsumexp",
             R"(graph "g" functional
input %0: bf16[33, 70] argument
input %1: f32[70, 33] argument
%2: bf16[33] = aten.logsumexp(%0, [1], False)
%3: f32[1, 33] = aten.logsumexp(%1, [0], True)
output %2 user
output %3 user
)",
             {"row: _to_copy, amax, abs, eq, sub, exp, sum, log, add, where, _to_copy", "aten.view",
              "column: amax, abs, eq", "column: sub, exp, sum, log, add, where, _to_copy"}},
        // Each of its loops computes the elements again, and with them what is the same in a segment.
        Case{"logsumexp_over_two_dimensions",
             R"(graph "g" functional
input %0: f32[9, 7, 8] argument
input %1: f32[9, 7, 1] argument
%2: f32[9, 7, 8] = aten.mul.Tensor(%0, %1)
%3: f32[9, 7, 8] = aten.add.Tensor(%2, %0, alpha=1)
%4: f32[9, 1, 1] = aten.logsumexp(%3, [1, 2], True)
output %2 user
output %4 user
)",
             {"row: mul, add, amax, abs, eq, sub, exp, sum, log, add, where, _to_copy"}},
        Case{"a_cycle_by_way_of_another_group",  // the sine's group would wait for itself if the last sum were in it
             R"(graph "g" functional
input %0: f32[32, 32] argument
input %1: f32[32, 32] argument
%2: f32[32, 32] = aten.sin(%0)
%3: f32[32, 32] = aten.mm(%2, %0)
%4: f32[32, 32] = aten.exp(%1)
%5: f32[32, 32] = aten.mul.Tensor(%3, %4)
%6: f32[32, 32] = aten.mm(%4, %1)
%7: f32[32, 32] = aten.add.Tensor(%6, %2, alpha=1)
output %5 user
output %7 user
)",
             {"pointwise: sin", "aten.mm", "pointwise: exp, mul", "aten.mm", "pointwise: add"}},
        Case{"functions_of_halves",
             R"(graph "g" functional
input %0: bf16[33, 72] argument
%1: bf16[33, 72] = aten.gelu(%0)
%2: bf16[33, 72] = aten.tanh(%0)
%3: bf16[33, 72] = aten.erf(%2)
%4: bf16[33, 72] = aten.abs(%0)
%5: bf16[33, 72] = aten.sqrt(%4)
%6: bf16[33, 72] = aten.add.Scalar(%5, 1)
%7: bf16[33, 72] = aten.div.Tensor(%3, %6)
%8: bf16[33, 72] = aten.reciprocal(%6)
%9: bf16[33, 72] = aten.exp(%8)
output %1 user
output %7 user
output %9 user
)",
             {"pointwise: gelu, tanh, erf, abs, sqrt, add, div, reciprocal, exp"}},
        Case{"number_constants",
             R"(graph "g" functional
input %0: f32[33, 70] argument
constant %1: f64[]{wrapped} = [1.5]
constant %2: i64[]{wrapped} = [3]
constant %3: f32[] = [0.25]
%4: f32[33, 70] = aten.mul.Tensor(%0, %1)
%5: f32[33, 70] = aten.sub.Tensor(%2, %4, alpha=1)
%7: f32[33, 1] = aten.amax(%5, [1], True)
%8: f32[33, 70] = aten.sub.Tensor(%5, %7, alpha=1)
%9: f32[33, 70] = aten.exp(%8)
%10: f32[33, 70] = aten.mul.Tensor(%9, %3)
%11: bool[33, 70] = aten.gt.Tensor(%10, %3)
output %10 user
output %11 user
)",
             {"row: mul, sub, amax, sub, exp, mul, gt"}},
        Case{"narrowed_and_widened",
             R"(graph "g" functional
input %0: f32[40, 9] argument
%1: bf16[40, 9] = aten._to_copy(%0, dtype=bf16)
%2: f32[40, 9] = aten._to_copy(%1, dtype=f32)
%3: f32[40, 9] = aten.sub.Tensor(%0, %2, alpha=1)
output %3 user
output %2 user
)",
             {"pointwise: _to_copy, _to_copy, sub"}},
        Case{"softmax",
             R"(graph "g" functional
input %0: f32[5, 33, 70] argument
%1: f32[5, 33, 70] = aten._softmax(%0, -1, False)
output %1 user
)",
             {"row: amax, sub, exp, sum, reciprocal, mul"}},
        Case{"log_softmax_bf16",
             R"(graph "g" functional
input %0: bf16[33, 70] argument
%1: bf16[33, 70] = aten._log_softmax(%0, -1, False)
output %1 user
)",
             {"row: _to_copy, amax, sub, exp, sum, log, sub, _to_copy"}},
        Case{"add_layer_norm",
             R"(graph "g" functional
input %0: f32[33, 70] argument
input %1: f32[33, 70] argument
input %2: f32[70] argument
input %3: f32[70] argument
%4: f32[33, 70] = aten.add.Tensor(%0, %1, alpha=1)
%5: f32[33, 70], %6: f32[33, 1], %7: f32[33, 1] = aten.native_layer_norm(%4, [70], %2, %3, 1e-05)
output %4 user
output %5 user
output %6 user
output %7 user
)",
             {"row: add, sum, div, sub, mul, sum, div, add, rsqrt, mul, mul, add, _to_copy, _to_copy, _to_copy"}},
        Case{"layer_norm_backward",
             R"(graph "g" functional
input %0: f32[333, 70] argument
input %1: f32[333, 70] argument
input %2: f32[333, 1] argument
input %3: f32[333, 1] argument
input %4: f32[70] argument
input %5: f32[70] argument
%6: f32[333, 70], %7: f32[70], %8: f32[70] = aten.native_layer_norm_backward(%0, %1, [70], %2, %3, %4, %5, [True, True, True])
output %6 user
output %7 user
output %8 user
)",
             {"row: sub, mul, mul, mul, sum, div, sum, div, mul, sub, sub, mul, _to_copy, mul",
              "column: sub, mul, mul, sum, sum", "horizontal × 2, pointwise: _to_copy"}},
        Case{"column_sum",
             R"(graph "g" functional
input %0: f32[3000, 70] argument
%1: f32[3000, 70] = aten.mul.Tensor(%0, %0)
%2: f32[70] = aten.sum.dim_IntList(%1, [0], False)
output %2 user
)",
             {"column: mul, sum"}},
        Case{"column_sums_in_whole_blocks",
             R"(graph "g" functional
input %0: f32[4096, 64] argument
input %1: bf16[64, 40] argument
%2: f32[64] = aten.sum.dim_IntList(%0, [0], False)
%3: bf16[40] = aten.sum.dim_IntList(%1, [0], False)
output %2 user
output %3 user
)",
             {"column: sum", "column: sum"}},
        Case{"full_sum",
             R"(graph "g" functional
input %0: f32[300, 700] argument
%1: f32[300, 700] = aten.abs(%0)
%2: f32[] = aten.sum(%1)
%3: f32[] = aten.mean(%0)
output %2 user
output %3 user
)",
             {"row: abs, sum, sum", "pointwise: div"}},
        Case{"transposed",
             R"(graph "g" functional
input %0: f32[65, 130] argument
input %1: f32[65, 130]{strides=[1, 65]} argument
%2: f32[65, 130] = aten.add.Tensor(%0, %1, alpha=2)
output %2 user
)",
             {"pointwise: add"}},
        Case{"transposed_in_whole_vectors",
             R"(graph "g" functional
input %0: bf16[72, 128] argument
input %1: bf16[72, 128]{strides=[1, 72]} argument
%2: bf16[72, 128] = aten.add.Tensor(%0, %1, alpha=2)
output %2 user
)",
             {"pointwise: add"}},
        Case{"transposed_with_a_part_of_a_vector_below",
             R"(graph "g" functional
input %0: bf16[66, 128] argument
input %1: bf16[66, 128]{strides=[1, 72]} argument
%2: bf16[66, 128] = aten.add.Tensor(%0, %1, alpha=2)
output %2 user
)",
             {"pointwise: add"}},
        Case{"transposed_batches",
             R"(graph "g" functional
input %0: bf16[3, 72, 136] argument
input %1: bf16[3, 72, 136]{strides=[9792, 1, 72]} argument
%2: bf16[3, 72, 136] = aten.add.Tensor(%0, %1, alpha=2)
output %2 user
)",
             {"pointwise: add"}},
        Case{"in_whole_unrolled_blocks",
             R"(graph "g" functional
input %0: f32[528, 1024] argument
input %1: f32[1024] argument
%2: f32[528, 1024] = aten.mul.Tensor(%0, %1)
output %2 user
)",
             {"pointwise: mul"}},
        Case{"in_unrolled_blocks_and_a_part_of_one",
             R"(graph "g" functional
input %0: f32[541700] argument
%1: f32[541700] = aten.neg(%0)
output %1 user
)",
             {"pointwise: neg"}},
        Case{"channels_last",
             R"(graph "g" functional
input %0: f32[2, 8, 5, 6]{strides=[240, 1, 48, 8]} argument
input %1: f32[8, 1, 1] argument
%2: f32[2, 8, 5, 6]{strides=[240, 1, 48, 8]} = aten.mul.Tensor(%0, %1)
%3: f32[2, 8, 5, 6]{strides=[240, 1, 48, 8]} = aten.relu(%2)
output %3 user
)",
             {"pointwise: mul, relu"}},
        Case{"symbolic",
             R"(graph "g" functional
symbol s0 = 37
input %0: f32[s0, 70] argument
%1: f32[s0, 70] = aten.mul.Scalar(%0, s0)
%2: f32[s0, 70] = aten._softmax(%1, 1, False)
output %2 user
)",
             {"row: mul, amax, sub, exp, sum, reciprocal, mul"}},
        Case{"zero_size_and_zero_dim",
             R"(graph "g" functional
input %0: f32[0, 7] argument
input %1: f64[] argument
%2: f32[0, 7] = aten.exp(%0)
%3: f64[] = aten.sin(%1)
output %2 user
output %3 user
)",
             {"pointwise: exp", "pointwise: sin"}},
        Case{"between_matmuls",
             R"(graph "g" functional
input %0: f32[16, 16] argument
%1: f32[16, 16] = aten.relu(%0)
%2: f32[16, 16] = aten.mm(%1, %0)
%3: f32[16, 16] = aten.add.Tensor(%1, %2, alpha=1)
output %3 user
)",
             {"pointwise: relu", "aten.mm", "pointwise: add"}},
        Case{"horizontal",
             R"(graph "g" functional
input %0: f32[16, 16] argument
input %1: f32[16, 16] argument
input %2: f32[50] argument
input %3: f32[50] argument
[%4: f32[16, 16], %5: f32[50]] = aten._foreach_add.List([%0, %2], [%1, %3], alpha=2)
[%6: f32[16, 16], %7: f32[50]] = aten._foreach_sqrt([%4, %5])
output %6 user
output %7 user
)",
             {"horizontal × 2, pointwise: add, sqrt"}},
        Case{"pieces_that_are_not_aligned",
             R"(graph "g" functional
input %0: f32[9, 17, 70] argument
%1: f32[9, 9, 70]{strides=[1190, 70, 1], offset=560} = aten.slice.Tensor(%0, 1, 8, 17, 1)
%2: f32[9, 9, 70] = aten.neg(%1)
%3: f32[9, 8, 70]{strides=[1190, 70, 1]} = aten.slice.Tensor(%0, 1, 0, 8, 1)
%4: f32[9, 8, 70] = aten.mul.Scalar(%3, 0.5)
%5: f32[9, 17, 70] = aten.cat([%2, %4], 1)
%6: f32[9, 17, 70] = aten.mul.Tensor(%0, %5)
output %5 user
output %6 user
)",
             {"aten.slice.Tensor", "aten.slice.Tensor", "pointwise: neg", "pointwise: mul", "aten.cat",
              "pointwise: mul"}},
        Case{"rows_that_are_walked",
             R"(graph "g" functional
input %0: bf16[2, 40001] argument
%1: bf16[2, 40001] = aten._softmax(%0, 1, False)
output %1 user
)",
             {"row: _to_copy, amax, sub, exp, sum, reciprocal, mul, _to_copy"}},
        Case{"int_overflow_wraps",
             R"(graph "g" functional
input %0: u8[100] argument
input %1: i8[100] argument
%2: u8[100] = aten.mul.Tensor(%0, %0)
%3: i8[100] = aten.add.Tensor(%1, %1, alpha=1)
%4: bool[100] = aten.lt.Scalar(%3, 0)
output %2 user
output %3 user
output %4 user
)",
             {"pointwise: add, lt", "pointwise: mul"}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace framefuse
