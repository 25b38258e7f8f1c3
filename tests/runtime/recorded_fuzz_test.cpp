// Random sessions with an executable that is recorded and replayed, against what its operators say: inputs that stay,
// move, overlap or change, results that are kept or dropped, streams that take turns, process groups that end.
// The pretended device does what a real one would with a misused recording: on another stream it is late, and closed
// it fails. FF_FUZZ_SESSIONS: how many (default 400), FF_FUZZ_SEED: of the first one. A failure prints its seed.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/common/fuzz_setting.h"
#include "tests/runtime/tape_recorder.h"

namespace framefuse {
namespace {

// The second result is the new value of the first input.
constexpr char kWrites[] = R"(graph "g" functional
input %0: f32[4, 3] argument mutated=1
input %1: f32[4, 3] argument
%2: f32[4, 3] = aten.mul.Tensor(%0, %1)
%3: f32[4, 3] = aten.add.Tensor(%0, %1, alpha=1)
output %2 user
output %3 mutated_input=0
)";
constexpr char kOverlaps[] = R"(graph "g" functional
input %0: f32[4, 3] argument mutated=1 overlap=1
input %1: f32[4, 3] argument overlap=1
%2: f32[4, 3] = aten.mul.Tensor(%0, %1)
%3: f32[4, 3] = aten.add.Tensor(%0, %1, alpha=1)
output %2 user
output %3 mutated_input=0
)";

class Session {
 public:
  explicit Session(unsigned seed) : random_(seed) {
    x_ = at::randn({4, 3});
    y_ = at::randn({4, 3});
  }

  // The results of calls, and what they should be and stay.
  struct Kept {
    at::Tensor got, expected;
  };

  std::size_t Pick(std::size_t n) { return random_() % n; }

  // Inputs of the next call: mostly where they were.
  std::vector<at::Tensor> Next(bool overlapping) {
    if (Pick(4) == 0) x_ = at::randn({4, 3});
    if (Pick(6) == 0) y_ = at::randn({4, 3});
    if (overlapping && Pick(6) == 0) {
      const at::Tensor rows = at::randn({6, 3});
      x_ = rows.narrow(0, static_cast<std::int64_t>(Pick(3)), 4);
      y_ = rows.narrow(0, static_cast<std::int64_t>(Pick(3)), 4);
    }
    if (Pick(3) == 0) x_.add_(1);
    if (Pick(3) == 0) y_.mul_(-1);
    return {x_, y_};
  }

 private:
  std::mt19937 random_;
  at::Tensor x_, y_;
};

class FuzzRecorded : public Recorded {
 protected:
  // What eager does: the new value is copied into the input.
  static void CheckCall(const Executable& executable, const std::vector<at::Tensor>& inputs, bool writes,
                        std::vector<Session::Kept>* kept) {
    const at::Tensor product = inputs[0] * inputs[1], sum = inputs[0] + inputs[1];
    std::vector<at::Tensor> results(2);
    const absl::Status status = executable.Run(inputs, {}, absl::MakeSpan(results));
    ASSERT_TRUE(status.ok()) << MessageOf(status);
    EXPECT_TRUE(at::equal(results[0], product));
    EXPECT_TRUE(at::equal(results[1], sum));
    kept->push_back({results[0], product});
    if (!writes) return kept->push_back({results[1], sum});
    if (!results[1].is_same(inputs[0])) inputs[0].copy_(results[1]);
  }

  static void Run(unsigned seed) {
    Session session(seed);
    const std::size_t kind = session.Pick(4);
    constexpr const char* kTexts[] = {kTwoInputs, kWithCollective, kWrites, kOverlaps};
    const bool writes = kind >= 2;
    TapeRecorder::carried = "7";
    TapeRecorder::of_groups.clear();
    const auto executable = Make(ProductAndSum, kTexts[kind], kind == 0 && session.Pick(2) == 0 ? 1 : -1);
    if (writes && session.Pick(4) != 0) executable->AllowOverwrites({{0, 1}});
    int streams[3];
    std::vector<Session::Kept> kept;
    for (int call = 0; call < 30 && !HasFailure(); ++call) {
      if (session.Pick(5) == 0) TapeRecorder::stream = &streams[session.Pick(3)];
      if (session.Pick(8) == 0) {
        for (const auto& closed : TapeRecorder::of_groups) *closed = true;
      }
      CheckCall(*executable, session.Next(kind == 3), writes, &kept);
      for (const Session::Kept& k : kept) EXPECT_TRUE(at::equal(k.got, k.expected));
      if (kept.size() > 6) kept.erase(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(session.Pick(5)));
    }
    TapeRecorder::stream = nullptr;
  }
};

TEST_F(FuzzRecorded, SessionsAreAsTheirOperators) {
  const auto first = static_cast<unsigned>(FuzzSetting("FF_FUZZ_SEED", 0));
  const auto sessions = static_cast<unsigned>(FuzzSetting("FF_FUZZ_SESSIONS", 400));
  for (unsigned seed = first; seed < first + sessions && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Run(seed);
  }
  EXPECT_GT(counts().replays, 0);
}

}  // namespace
}  // namespace framefuse
