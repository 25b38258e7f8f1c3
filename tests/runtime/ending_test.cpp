// The end of a run that is not recorded: it runs behind each replay.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "tests/runtime/tape_recorder.h"

namespace framefuse {
namespace {

// (x + y) * x is made behind what is recorded; x + y is hidden, and read by the end.
class WithEnding final : public Executable {
 public:
  explicit WithEnding(bool* apart) : apart_(apart) {}
  absl::Status Run(absl::Span<const at::Tensor> in, absl::Span<const std::int64_t>,
                   absl::Span<at::Tensor> out) const override {
    Begin(in, out);
    return Sums(out[1]).Run(in, out);
  }
  absl::Status RunToEnding(absl::Span<const at::Tensor> in, absl::Span<const std::int64_t>, absl::Span<at::Tensor> out,
                           const std::vector<bool>& apart, std::unique_ptr<Ending>* ending) const override {
    *apart_ = apart[0] && !apart[1];
    Begin(in, out);
    *ending = std::make_unique<Sums>(out[1]);
    return absl::OkStatus();
  }
  std::vector<PlanGroup> Explain() const override { return {}; }

 private:
  class Sums final : public Ending {
   public:
    explicit Sums(at::Tensor sum) : sum_(std::move(sum)) {}
    absl::Status Run(absl::Span<const at::Tensor> in, absl::Span<at::Tensor> out) const override {
      out[0] = at::empty({4, 3});
      Elementwise(out[0], sum_, in[0], [](float a, float b) { return a * b; });
      return absl::OkStatus();
    }

   private:
    at::Tensor sum_;
  };

  static void Begin(absl::Span<const at::Tensor> in, absl::Span<at::Tensor> out) {
    out[1] = at::empty({4, 3});
    Elementwise(out[1], in[0], in[1], [](float a, float b) { return a + b; });
  }

  bool* apart_;
};

TEST_F(Recorded, AnEndingRunsBehindEachReplay) {
  bool apart = false;
  const ExecutableFactory factory = RecordingFactory([&](ir::Graph, const BackendOptions&) {
    return absl::StatusOr<std::unique_ptr<Executable>>(std::make_unique<WithEnding>(&apart));
  });
  BackendOptions options;
  options.first_kept_output = 1;
  const auto executable = *factory(*ir::Parse(kTwoInputs), options);
  const at::Tensor y = at::randn({4, 3});
  std::vector<at::Tensor> xs, results;
  std::vector<const void*> sums;
  for (int i = 0; i < 12; ++i) {
    xs.push_back(at::randn({4, 3}));
    const std::vector<at::Tensor> got = Run(*executable, {xs.back(), y});
    results.push_back(got[0]);
    sums.push_back(got[1].const_data_ptr());
  }
  EXPECT_TRUE(apart);
  EXPECT_EQ(counts().begun, 1);  // what the ending holds does not keep the recording
  EXPECT_GE(counts().replays, 7);
  EXPECT_EQ(sums[10], sums[11]);
  for (std::size_t i = 0; i < xs.size(); ++i) EXPECT_TRUE(at::equal(results[i], (xs[i] + y) * xs[i])) << i;
}

}  // namespace
}  // namespace framefuse
