// What runs until an executable is made, and what of it is told: threads, failures, writes, plans that are gone.
#include "backends/runtime/background_executable.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <future>

#include "backends/graph/backend.h"
#include "backends/runtime/background_work.h"
#include "tests/runtime/tape_recorder.h"

namespace framefuse {
namespace {

// Made when the test says so.
class Held {
 public:
  explicit Held(Work work, absl::Status status = absl::OkStatus())
      : work_(std::move(work)), status_(std::move(status)) {}
  std::unique_ptr<Executable> Make(const char* text = kTwoInputs) {
    absl::StatusOr<ir::Graph> graph = ir::Parse(text);
    EXPECT_TRUE(graph.ok()) << MessageOf(graph.status());
    const ExecutableFactory factory = InBackground([this, gate = gate_](ir::Graph, const BackendOptions&) {
      gate.wait();
      if (!status_.ok()) return absl::StatusOr<std::unique_ptr<Executable>>(status_);
      return absl::StatusOr<std::unique_ptr<Executable>>(std::make_unique<TapedExecutable>(work_));
    });
    return *factory(*std::move(graph), {});
  }
  void Open() { open_.set_value(); }
  void LetGo() {
    Open();
    WaitForBackground();
  }

 private:
  std::promise<void> open_;
  std::shared_future<void> gate_ = open_.get_future().share();
  Work work_;
  absl::Status status_;
};

std::vector<at::Tensor> ResultsOf(const Executable& executable, const at::Tensor& x, const at::Tensor& y) {
  std::vector<at::Tensor> results(2);
  EXPECT_TRUE(executable.Run(std::vector<at::Tensor>{x, y}, {}, absl::MakeSpan(results)).ok());
  return results;
}

TEST(Background, OperatorsRunUntilItIsMade) {
  std::atomic<int> runs = 0;
  Held held([&](absl::Span<const at::Tensor> in, absl::Span<at::Tensor> out) {
    ++runs;
    ProductAndSum(in, out);
  });
  const BackgroundCounts before = GetBackgroundCounts();
  const auto executable = held.Make();
  const at::Tensor x = at::randn({4, 3}), y = at::randn({4, 3});
  EXPECT_TRUE(at::equal(ResultsOf(*executable, x, y)[0], x * y));
  EXPECT_EQ(runs, 0);
  held.LetGo();
  EXPECT_TRUE(at::equal(ResultsOf(*executable, x, y)[1], x + y));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(GetBackgroundCounts().begun, before.begun + 1);
  EXPECT_EQ(GetBackgroundCounts().done, before.done + 1);
}

TEST(Background, WhatCannotBeMadeGoesOnAsOperators) {
  Held held(ProductAndSum, absl::InternalError("no kernel"));
  const BackgroundCounts before = GetBackgroundCounts();
  const auto executable = held.Make();
  held.LetGo();
  const at::Tensor x = at::randn({4, 3}), y = at::randn({4, 3});
  EXPECT_TRUE(at::equal(ResultsOf(*executable, x, y)[0], x * y));
  EXPECT_EQ(GetBackgroundCounts().failed, before.failed + 1);
}

TEST(Background, APlanThatIsGoneIsNotMade) {
  std::atomic<bool> made = false;
  std::vector<std::unique_ptr<Held>> gates;
  std::vector<std::unique_ptr<Executable>> busy;
  for (int i = 0; i < 16; ++i) {  // more than there are threads
    gates.push_back(std::make_unique<Held>(ProductAndSum));
    busy.push_back(gates.back()->Make());
  }
  const ExecutableFactory factory = InBackground([&](ir::Graph, const BackendOptions&) {
    made = true;
    return absl::StatusOr<std::unique_ptr<Executable>>(absl::InternalError("made"));
  });
  (*factory(*ir::Parse(kTwoInputs), {})).reset();
  for (const auto& gate : gates) gate->Open();
  WaitForBackground();
  EXPECT_FALSE(made);
}

// Says that it writes where it was allowed to.
class Writer final : public Executable {
 public:
  absl::Status Run(absl::Span<const at::Tensor>, absl::Span<const std::int64_t>,
                   absl::Span<at::Tensor>) const override {
    return absl::InternalError("behind a write");
  }
  void AllowOverwrites(absl::Span<const Overwrite> overwrites) override { writes_ = !overwrites.empty(); }
  bool WritesInputs() const override { return writes_; }
  std::vector<PlanGroup> Explain() const override { return {}; }

 private:
  bool writes_ = false;
};

TEST(Background, ItMayWriteWhatItsExecutableMayWrite) {
  const ExecutableFactory factory = InBackground([](ir::Graph, const BackendOptions&) {
    return absl::StatusOr<std::unique_ptr<Executable>>(std::make_unique<Writer>());
  });
  std::vector<at::Tensor> results(2);
  const std::vector<at::Tensor> inputs = {at::randn({4, 3}), at::randn({4, 3})};
  const auto writes = *factory(*ir::Parse(kTwoInputs), {}), reads = *factory(*ir::Parse(kTwoInputs), {});
  writes->AllowOverwrites({{0, 0}});
  WaitForBackground();
  EXPECT_TRUE(writes->WritesInputs());
  EXPECT_FALSE(AreInputsUntouched(writes->Run(inputs, {}, absl::MakeSpan(results))));
  EXPECT_TRUE(AreInputsUntouched(reads->Run(inputs, {}, absl::MakeSpan(results))));
}

}  // namespace
}  // namespace framefuse
