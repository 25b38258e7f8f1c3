// Executables whose runs are recorded and replayed: what a replay must not overwrite, which inputs it reads where, and
// when nothing is recorded.
#include "backends/runtime/cuda_graph_executable.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_replace.h"
#include "backends/runtime/recordable.h"
#include "common/status.h"
#include "tests/runtime/tape_recorder.h"

namespace framefuse {
namespace {

TEST_F(Recorded, VisibleResultsStayAsTheyWere) {
  const auto executable = Make(ProductAndSum);
  const at::Tensor y = at::randn({4, 3});
  std::vector<at::Tensor> xs, products;
  for (int i = 0; i < 12; ++i) {
    xs.push_back(at::randn({4, 3}));
    products.push_back(Run(*executable, {xs.back(), y})[0]);
  }
  EXPECT_EQ(counts().begun, 1);
  EXPECT_GE(counts().replays, 7);
  for (std::size_t i = 0; i < xs.size(); ++i) EXPECT_TRUE(at::equal(products[i], xs[i] * y)) << i;
}

TEST_F(Recorded, InputsThatStayAreReadInPlace) {
  const auto executable = Make(ProductAndSum);
  const at::Tensor x = at::randn({4, 3}), y = at::randn({4, 3});
  for (int i = 0; i < 6; ++i) {
    x.add_(1);
    EXPECT_TRUE(at::equal(Run(*executable, {x, y})[0], x * y));
  }
  EXPECT_EQ(counts().begun, 1);
  EXPECT_EQ(counts().replays, 4);
  // Elsewhere now: nothing may be read at the old address.
  const at::Tensor moved = at::randn({4, 3});
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(at::equal(Run(*executable, {moved, y})[0], moved * y));
  EXPECT_TRUE(at::equal(Run(*executable, {x, y})[0], x * y));
}

TEST_F(Recorded, HiddenResultsInUseAreNotOverwritten) {
  const auto executable = Make(ProductAndSum);
  const at::Tensor y = at::randn({4, 3});
  std::vector<at::Tensor> xs, sums;
  for (int i = 0; i < 10; ++i) {
    xs.push_back(at::randn({4, 3}));
    sums.push_back(Run(*executable, {xs.back(), y})[1]);
  }
  for (std::size_t i = 0; i < xs.size(); ++i) EXPECT_TRUE(at::equal(sums[i], xs[i] + y)) << i;
  const int before = counts().replays;
  at::Storage kept = sums.back().storage();  // a storage alone is in use, too
  const at::Tensor last = sums.back();
  sums.clear();
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(at::equal(Run(*executable, {xs[0], y})[1], xs[0] + y));
  EXPECT_GT(counts().replays, before);
  EXPECT_TRUE(at::equal(last, xs.back() + y));
}

TEST_F(Recorded, AHiddenResultThatIsAlsoVisibleLeaves) {
  const auto executable = Make([](absl::Span<const at::Tensor> in, absl::Span<at::Tensor> out) {
    out[0] = at::empty({4, 3});
    out[1] = out[0].view({12}).slice(0, 3, 9);
    Elementwise(out[0], in[0], in[1], [](float a, float b) { return a - b; });
  });
  const at::Tensor y = at::randn({4, 3});
  std::vector<at::Tensor> xs;
  std::vector<std::vector<at::Tensor>> results;
  for (int i = 0; i < 9; ++i) {
    xs.push_back(at::randn({4, 3}));
    results.push_back(Run(*executable, {xs.back(), y}));
  }
  EXPECT_GT(counts().replays, 0);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    EXPECT_TRUE(at::equal(results[i][0], xs[i] - y));
    EXPECT_TRUE(at::equal(results[i][1], (xs[i] - y).view({12}).slice(0, 3, 9)));
    EXPECT_TRUE(results[i][0].storage().is_alias_of(results[i][1].storage()));
  }
}

TEST_F(Recorded, ResultsThatAreInputsOrViewsOfThem) {
  const auto executable = Make([](absl::Span<const at::Tensor> in, absl::Span<at::Tensor> out) {
    out[0] = in[0];
    out[1] = in[1].select(0, 2);
  });
  const at::Tensor x = at::randn({4, 3});
  for (int i = 0; i < 8; ++i) {
    const at::Tensor y = at::randn({5, 4, 3})[i % 5];
    const std::vector<at::Tensor> results = Run(*executable, {x, y});
    EXPECT_TRUE(results[0].is_same(x));
    EXPECT_TRUE(results[1].storage().is_alias_of(y.storage()) && at::equal(results[1], y[2]));
  }
  EXPECT_GT(counts().replays, 0);
}

TEST_F(Recorded, CollectivesOfAGroupThatIsNoWorkOfTheDeviceAlone) {
  TapeRecorder::carried = "8";
  const auto executable = Make(ProductAndSum, kWithCollective, -1);
  const at::Tensor x = at::randn({4, 3}), y = at::randn({4, 3});
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(at::equal(Run(*executable, {x, y})[0], x * y));
  EXPECT_EQ(counts().begun, 0);
}

TEST_F(Recorded, WithCollectivesItIsClosedBeforeGroupsEndAndMadeAnew) {
  TapeRecorder::carried = "7";
  const auto executable = Make(ProductAndSum, kWithCollective, -1);
  const at::Tensor x = at::randn({4, 3}), y = at::randn({4, 3});
  const auto run = [&] { EXPECT_TRUE(at::equal(Run(*executable, {x, y})[0], x * y)); };
  for (int i = 0; i < 6; ++i) run();
  EXPECT_EQ(counts().begun, 1);
  EXPECT_EQ(counts().replays, 4);
  ASSERT_EQ(TapeRecorder::of_groups.size(), 1U);
  *TapeRecorder::of_groups[0] = true;
  for (int i = 0; i < 3; ++i) run();
  EXPECT_EQ(counts().replays, 6);  // one run records again
  EXPECT_EQ(counts().begun, 2);
  EXPECT_EQ(counts().alive, 1);
}

TEST_F(Recorded, WithoutCollectivesNothingClosesIt) {
  const auto executable = Make(ProductAndSum);
  const at::Tensor x = at::randn({4, 3}), y = at::randn({4, 3});
  for (int i = 0; i < 6; ++i) (void)Run(*executable, {x, y});
  EXPECT_GT(counts().replays, 0);
  EXPECT_TRUE(TapeRecorder::of_groups.empty());
}

constexpr char kMutates[] = R"(graph "g" functional
input %0: f32[4, 3] argument mutated=0
input %1: f32[4, 3] argument
%2: f32[4, 3] = aten.add.Tensor(%0, %1, alpha=1)
output %2 mutated_input=0
)";

// As a kernel that was allowed to: the new value is written over the input, which is the output.
void AddInPlace(absl::Span<const at::Tensor> in, absl::Span<at::Tensor> out) {
  Elementwise(in[0], in[0], in[1], [](float a, float b) { return a + b; });
  out[0] = in[0];
}

TEST_F(Recorded, AnInputThatStaysIsWrittenInPlace) {
  const auto executable = Make(AddInPlace, kMutates, -1);
  executable->AllowOverwrites({{0, 0}});
  const at::Tensor x = at::full({4, 3}, 0.0F), one = at::full({4, 3}, 1.0F);
  for (int i = 1; i < 8; ++i) {
    EXPECT_TRUE(Run(*executable, {x, one}, 1)[0].is_same(x));
    EXPECT_TRUE(at::equal(x, at::full({4, 3}, static_cast<float>(i))));
  }
  EXPECT_EQ(counts().replays, 5);
}

TEST_F(Recorded, ANewValueOfAnInputThatMoves) {
  const auto executable = Make(AddInPlace, kMutates, -1);
  executable->AllowOverwrites({{0, 0}});
  const at::Tensor one = at::full({4, 3}, 1.0F);
  std::vector<at::Tensor> kept;
  for (int i = 0; i < 9; ++i) {
    kept.push_back(at::full({4, 3}, static_cast<float>(i)));
    const at::Tensor result = Run(*executable, {kept.back(), one}, 1)[0];
    EXPECT_TRUE(at::equal(result, at::full({4, 3}, static_cast<float>(i + 1))));
    kept.push_back(result);
  }
  EXPECT_GT(counts().replays, 0);
}

void AddInNewMemory(absl::Span<const at::Tensor> in, absl::Span<at::Tensor> out) {
  out[0] = at::empty({4, 3});
  Elementwise(out[0], in[0], in[1], [](float a, float b) { return a + b; });
}

TEST_F(Recorded, AReplayWritesANewValueOverItsInput) {
  const auto executable = Make(AddInNewMemory, kMutates, -1);
  executable->AllowOverwrites({{0, 0}});
  EXPECT_TRUE(executable->WritesInputs());
  const at::Tensor one = at::full({4, 3}, 1.0F);
  for (int i = 0; i < 9; ++i) {
    const at::Tensor rows = at::full({5, 3}, static_cast<float>(i)), x = rows.narrow(0, 1, 4);  // it moves
    const int replays = counts().replays;
    const at::Tensor result = Run(*executable, {x, one}, 1)[0];
    EXPECT_TRUE(at::equal(result, at::full({4, 3}, static_cast<float>(i + 1))));
    EXPECT_EQ(result.is_same(x), counts().replays > replays);
    EXPECT_TRUE(at::equal(rows[0], at::full({3}, static_cast<float>(i))));
  }
  EXPECT_GT(counts().replays, 0);
}

TEST_F(Recorded, AReplayLeavesAnInputAloneThatMayNotBeWritten) {
  const auto executable = Make(AddInNewMemory, kMutates, -1);
  EXPECT_FALSE(executable->WritesInputs());
  const at::Tensor x = at::full({4, 3}, 2.0F), one = at::full({4, 3}, 1.0F);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(at::equal(Run(*executable, {x, one}, 1)[0], x + one));
  EXPECT_GT(counts().replays, 0);
  EXPECT_TRUE(at::equal(x, at::full({4, 3}, 2.0F)));
}

constexpr char kOverlaps[] = R"(graph "g" functional
input %0: f32[4, 3] argument mutated=0 overlap=1
input %1: f32[4, 3] argument overlap=1
%2: f32[4, 3] = aten.add.Tensor(%0, %1, alpha=1)
output %2 mutated_input=0
)";

TEST_F(Recorded, AReplayLeavesAnInputAloneThatMayShareMemory) {
  const auto executable = Make(AddInNewMemory, kOverlaps, -1);
  executable->AllowOverwrites({{0, 0}});
  const at::Tensor x = at::full({4, 3}, 2.0F), one = at::full({4, 3}, 1.0F);
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(Run(*executable, {x, one}, 1)[0].is_same(x));
  EXPECT_GT(counts().replays, 0);
}

TEST_F(Recorded, ATangentIsCopiedFromTheBeginning) {
  const auto executable = Make(ProductAndSum, kTwoInputs, 1, 1);
  const at::Tensor x = at::randn({4, 3});
  std::vector<at::Tensor> tangents;
  for (int i = 0; i < 8; ++i) {
    tangents.push_back(at::randn({4, 3}));
    EXPECT_TRUE(at::equal(Run(*executable, {x, tangents.back()})[0], x * tangents.back()));
  }
  EXPECT_EQ(counts().begun, 1);
  EXPECT_EQ(counts().replays, 6);
}

// As a gradient does whose memory the allocator takes from here and there.
TEST_F(Recorded, AnInputThatGoesRoundIsCopiedInTheEnd) {
  const auto executable = Make(ProductAndSum);
  const at::Tensor y = at::randn({4, 3});
  std::vector<at::Tensor> places;
  for (int i = 0; i < 6; ++i) places.push_back(at::randn({4, 3}));
  const auto go_round = [&] {
    for (int i = 0; i < 36; ++i) {
      const at::Tensor& x = places[static_cast<std::size_t>(i / 3 % 6)];  // thrice at each place
      EXPECT_TRUE(at::equal(Run(*executable, {x, y})[0], x * y));
    }
  };
  go_round();
  const Counts before = counts();
  EXPECT_LT(before.begun, 8);
  go_round();
  EXPECT_EQ(counts().begun, before.begun);
  EXPECT_EQ(counts().replays, before.replays + 36);
}

TEST_F(Recorded, OtherLayoutsAndSizesAreOthersToRecord) {
  const Work work = [](absl::Span<const at::Tensor> in, absl::Span<at::Tensor> out) {
    out[0] = at::empty(in[0].sizes());
    const at::Tensor x = in[0], y = in[1], result = out[0];
    Launch([x, y, result] { result.copy_(x * y); });
  };
  const auto executable = Make(work);
  for (int round = 0; round < 4; ++round) {
    for (std::int64_t n = 1; n < 12; ++n) {
      const at::Tensor x = at::randn({n, 3}), y = at::randn({3, n}).t();
      EXPECT_TRUE(at::equal(Run(*executable, {x, y})[0], x * y));
      EXPECT_TRUE(at::equal(Run(*executable, {y, x})[0], x * y));
    }
  }
}

TEST_F(Recorded, NothingIsRecordedOrReplayedWhileTheUserRecords) {
  const auto executable = Make(ProductAndSum);
  const at::Tensor x = at::randn({4, 3}), y = at::randn({4, 3});
  TapeRecorder::user_captures = true;
  for (int i = 0; i < 4; ++i) Run(*executable, {x, y});
  EXPECT_EQ(counts().begun, 0);
  TapeRecorder::user_captures = false;
  for (int i = 0; i < 4; ++i) Run(*executable, {x, y});
  EXPECT_EQ(counts().replays, 2);
  TapeRecorder::user_captures = true;
  EXPECT_TRUE(at::equal(Run(*executable, {x, y})[0], x * y));
  EXPECT_EQ(counts().replays, 2);
}

TEST_F(Recorded, AnotherStreamHasRecordingsOfItsOwn) {
  const auto executable = Make(ProductAndSum);
  const at::Tensor x = at::randn({4, 3}), y = at::randn({4, 3});
  for (int i = 0; i < 3; ++i) Run(*executable, {x, y});
  EXPECT_EQ(counts().begun, 1);
  int other = 0;
  TapeRecorder::stream = &other;
  Run(*executable, {x, y});
  EXPECT_EQ(counts().begun, 2);
  EXPECT_EQ(counts().replays, 1);
  Run(*executable, {x, y});
  EXPECT_EQ(counts().replays, 2);
}

TEST_F(Recorded, ARecordingThatFailsIsNotTriedAgain) {
  const auto executable = Make(ProductAndSum);
  TapeRecorder::fails = true;
  const at::Tensor x = at::randn({4, 3}), y = at::randn({4, 3});
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(at::equal(Run(*executable, {x, y})[0], x * y));
  EXPECT_EQ(counts().begun, 1);
  EXPECT_EQ(counts().replays, 0);
}

TEST_F(Recorded, RecordingsEndWithTheirExecutable) {
  auto executable = Make(ProductAndSum);
  const at::Tensor x = at::randn({4, 3}), y = at::randn({4, 3});
  for (int i = 0; i < 6; ++i) Run(*executable, {x, y});
  EXPECT_EQ(counts().alive, 1);
  const at::Tensor sum = Run(*executable, {x, y})[1];
  executable.reset();
  EXPECT_EQ(counts().alive, 0);
  EXPECT_TRUE(at::equal(sum, x + y));
}

TEST_F(Recorded, ThreadsShareAnExecutable) {
  const auto executable = Make(ProductAndSum);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const at::Tensor y = at::full({4, 3}, static_cast<float>(t));
      std::vector<std::vector<at::Tensor>> kept;
      for (int i = 0; i < 200; ++i) {
        const at::Tensor x = at::full({4, 3}, static_cast<float>(i));
        kept.push_back(Run(*executable, {x, y}));
        if (!at::equal(kept.back()[0], x * y) || !at::equal(kept.back()[1], x + y)) ++wrong;
        if (kept.size() > 3) kept.erase(kept.begin());
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

struct Refusal {
  const char* name;
  const char* text;
  const char* why;
};

class Refused : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refused, SaysWhy) {
  const absl::StatusOr<ir::Graph> graph = ir::Parse(GetParam().text);
  ASSERT_TRUE(graph.ok()) << MessageOf(graph.status());
  const absl::StatusOr<c10::Device> device = DeviceToRecordOn(*graph);
  ASSERT_FALSE(device.ok());
  EXPECT_NE(MessageOf(device.status()).find(GetParam().why), std::string::npos) << MessageOf(device.status());
}

INSTANTIATE_TEST_SUITE_P(Text, Refused,
                         ::testing::Values(Refusal{"writes", R"(graph "g"
input %0: f32[3]{device=cuda:0} argument mutated
aten.add_.Tensor(%0, %0, alpha=1)
)",
                                                   "writes its inputs"},
                                           Refusal{"two_devices", R"(graph "g" functional
input %0: f32[3]{device=cuda:0} argument "x"
input %1: f32[3]{device=cuda:1} argument "other"
%2: f32[3]{device=cuda:0} = aten.neg(%0)
output %2 user
)",
                                                   "other is on cuda:1"},
                                           Refusal{"to_the_host", R"(graph "g" functional
input %0: f32[3]{device=cuda:0} argument
%1: f32[3] = aten._to_copy(%0, device=cpu)
%2: f32[3]{device=cuda:0} = aten.neg(%0)
output %1 user
output %2 user
)",
                                                   "is on c"},
                                           Refusal{"mask", R"(graph "g" functional
input %0: f32[3]{device=cuda:0} argument
input %1: bool[3]{device=cuda:0} argument
%2: f32[2]{device=cuda:0} = aten.index.Tensor(%0, [%1])
output %2 user
)",
                                                   "waits for its values"},
                                           Refusal{"values_decide_sizes", R"(graph "g" functional
input %0: f32[3]{device=cuda:0} argument
%1: i64[2, 1]{device=cuda:0} = aten.nonzero(%0)
output %1 user
)",
                                                   "waits for its values"}),
                         [](const auto& info) { return info.param.name; });

// Attention leaves seeds on the host, or on the device where it is recorded; its backward reads them only where
// something is dropped. The program would see where they are: an operator that gives it seeds is not recorded.
TEST(Recordable, SeedsOfAttention) {
  const std::string text = R"(graph "g" functional
input %0: f32[1, 2, 8, 4]{device=cuda:0} argument
input %1: f32[1, 2, 8]{device=cuda:0} argument
input %2: i64[]WHERE argument
input %3: i64[]WHERE argument
%4: f32[1, 2, 8, 4]{device=cuda:0}, %5: f32[1, 2, 8]{device=cuda:0}, %6: i64[]WHERE, %7: i64[]WHERE = aten._scaled_dot_product_efficient_attention(%0, %0, %0, None, True, RATE)
%8: f32[1, 2, 8, 4]{device=cuda:0}, %9: f32[1, 2, 8, 4]{device=cuda:0}, %10: f32[1, 2, 8, 4]{device=cuda:0}, _ = aten._scaled_dot_product_efficient_attention_backward(%0, %0, %0, %0, None, %4, %1, %2, %3, RATE, [True, True, True, False])
output %4 user
output %6 ROLE
output %8 user
)";
  for (const auto& [drops, seen, where] :
       {std::tuple(false, true, ""), std::tuple(true, true, ""), std::tuple(true, false, ""),
        std::tuple(false, true, "{device=cuda:0}"), std::tuple(true, true, "{device=cuda:0}"),
        std::tuple(true, false, "{device=cuda:0}")}) {
    const std::string own = absl::StrReplaceAll(
        text, {{"RATE", drops ? "0.5" : "0.0"}, {"WHERE", where}, {"ROLE", seen ? "user" : "hidden"}});
    const absl::StatusOr<ir::Graph> graph = ir::Parse(own);
    ASSERT_TRUE(graph.ok()) << MessageOf(graph.status()) << own;
    EXPECT_EQ(DeviceToRecordOn(*graph).ok(), !drops || !seen) << MessageOf(DeviceToRecordOn(*graph).status());
    const std::vector<bool> unread = UnreadSeeds(*graph);
    EXPECT_EQ(std::count(unread.begin(), unread.end(), true), drops ? 0 : 4);
    EXPECT_EQ(unread[static_cast<std::size_t>(graph->inputs[2].value)], !drops);
    const std::vector<bool> wandering = WanderingSeeds(*graph);
    EXPECT_EQ(std::count(wandering.begin(), wandering.end(), true), drops ? 4 : 0);
  }
}

TEST(Recordable, ByPositionAndWithNumbers) {
  const absl::StatusOr<ir::Graph> graph = ir::Parse(R"(graph "g" functional
input %0: f32[3]{device=cuda:1} argument
input %1: i64[2]{device=cuda:1} argument
constant %2: f64[]{wrapped} = [2.5]
%3: f32[2]{device=cuda:1} = aten.index.Tensor(%0, [%1])
%4: f32[2]{device=cuda:1} = aten.mul.Tensor(%3, %2)
output %4 user
)");
  ASSERT_TRUE(graph.ok()) << MessageOf(graph.status());
  const absl::StatusOr<c10::Device> device = DeviceToRecordOn(*graph);
  ASSERT_TRUE(device.ok()) << MessageOf(device.status());
  EXPECT_EQ(*device, c10::Device("cuda:1"));
}

}  // namespace
}  // namespace framefuse
