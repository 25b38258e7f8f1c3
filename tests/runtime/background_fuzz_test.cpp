// Random sessions with an executable that is made in the background, beside the same one that is made at once: from
// when it is there, both do and say the same, whenever it was told which inputs it may write.
// FF_FUZZ_SESSIONS: how many (default 200), FF_FUZZ_SEED: of the first one. A failure prints its seed.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <future>
#include <random>

#include "backends/graph/backend.h"
#include "backends/runtime/background_executable.h"
#include "backends/runtime/background_work.h"
#include "common/status.h"
#include "tests/common/fuzz_setting.h"

namespace framefuse {
namespace {

constexpr char kAdds[] = R"(graph "g" functional
input %0: f32[3] argument mutated=0
input %1: f32[3] argument
%2: f32[3] = aten.add.Tensor(%0, %1, alpha=1)
output %2 mutated_input=0
)";

// Writes the sum over its first input where it may, and then fails now and then.
class Adds final : public Executable {
 public:
  explicit Adds(const bool* fails) : fails_(fails) {}
  absl::Status Run(absl::Span<const at::Tensor> in, absl::Span<const std::int64_t>,
                   absl::Span<at::Tensor> out) const override {
    if (writes_) in[0].add_(in[1]);
    if (*fails_) return absl::InternalError("no memory");
    out[0] = writes_ ? in[0] : in[0] + in[1];
    return absl::OkStatus();
  }
  void AllowOverwrites(absl::Span<const Overwrite> overwrites) override { writes_ = !overwrites.empty(); }
  bool WritesInputs() const override { return writes_; }
  std::vector<PlanGroup> Explain() const override { return {}; }

 private:
  const bool* fails_;
  bool writes_ = false;
};

struct Seen {
  at::Tensor input, result;
  bool ok = false, in_place = false, untouched = false;
};

Seen RunOn(const Executable& executable, const at::Tensor& x, const at::Tensor& y) {
  Seen seen;
  seen.input = x.clone();
  std::vector<at::Tensor> results(1);
  const absl::Status status = executable.Run(std::vector<at::Tensor>{seen.input, y}, {}, absl::MakeSpan(results));
  seen.ok = status.ok();
  seen.untouched = !status.ok() && AreInputsUntouched(status);
  if (status.ok()) seen.result = results[0].clone();
  seen.in_place = status.ok() && results[0].is_same(seen.input);
  // Who is told so runs the operators again.
  EXPECT_TRUE(!seen.untouched || at::equal(seen.input, x));
  return seen;
}

void ExpectEqual(const Seen& a, const Seen& b) {
  EXPECT_EQ(a.ok, b.ok);
  EXPECT_EQ(a.in_place, b.in_place);
  EXPECT_TRUE(at::equal(a.input, b.input));
  EXPECT_TRUE(!a.ok || !b.ok || at::equal(a.result, b.result));
}

void RunSession(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](unsigned n) { return random() % n; };
  bool fails = false, open = false;
  std::promise<void> gate;
  const ExecutableFactory factory = InBackground([&, opened = gate.get_future().share()](auto&&, auto&&) {
    opened.wait();
    return absl::StatusOr<std::unique_ptr<Executable>>(std::make_unique<Adds>(&fails));
  });
  const auto made = *factory(*ir::Parse(kAdds), {});
  Adds at_once(&fails);
  const auto let_go = [&] {
    if (!std::exchange(open, true)) gate.set_value();
    WaitForBackground();
  };
  if (pick(2) == 0) let_go();
  if (pick(3) != 0) {
    made->AllowOverwrites({{0, 0}});
    at_once.AllowOverwrites({{0, 0}});
  }
  for (int call = 0; call < 8; ++call) {
    if (!open && pick(3) == 0) let_go();
    fails = open && pick(3) == 0;
    const at::Tensor x = at::randn({3}), y = at::randn({3});
    const Seen seen = RunOn(*made, x, y), expected = RunOn(at_once, x, y);
    if (open) {
      ExpectEqual(seen, expected);
    } else {
      EXPECT_TRUE(seen.ok && at::equal(seen.result, x + y));
    }
    EXPECT_TRUE(!open || made->WritesInputs() == at_once.WritesInputs());
  }
  let_go();
}

TEST(FuzzBackground, IsAsWhatIsMadeAtOnce) {
  const auto first = static_cast<unsigned>(FuzzSetting("FF_FUZZ_SEED", 0));
  const auto sessions = static_cast<unsigned>(FuzzSetting("FF_FUZZ_SESSIONS", 200));
  for (unsigned seed = first; seed < first + sessions && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RunSession(seed);
  }
}

}  // namespace
}  // namespace framefuse
