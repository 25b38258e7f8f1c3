// TapeRecorder: a recorder that keeps a tape of what a pretended device was told to do on raw addresses, and a fixture
// of tests that use it.
#ifndef FRAMEFUSE_TESTS_RUNTIME_TAPE_RECORDER_H_
#define FRAMEFUSE_TESTS_RUNTIME_TAPE_RECORDER_H_

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/runtime/cuda_graph_executable.h"
#include "backends/runtime/cuda_graph_recorder.h"
#include "common/status.h"

namespace framefuse {

using Tape = std::vector<std::function<void()>>;
inline thread_local Tape* recorded_tape = nullptr;

inline void Launch(std::function<void()> work) {
  if (recorded_tape != nullptr) {
    recorded_tape->push_back(std::move(work));
  } else {
    work();
  }
}

struct Counts {
  int begun = 0, replays = 0, alive = 0;
};

class TapeRecorder final : public CudaGraphRecorder {
 public:
  static inline Counts counts;
  static inline void* stream = nullptr;
  static inline std::string carried;
  static inline std::vector<std::shared_ptr<bool>> of_groups;
  static inline bool user_captures = false, fails = false, serves = true;

  class Recording final : public CudaGraphRecording {
   public:
    explicit Recording(Tape tape) : tape_(std::move(tape)), stream_(stream) { ++counts.alive; }
    ~Recording() override { --counts.alive; }
    absl::Status Replay() override {
      if (*closed_) return absl::InternalError("its process groups are gone");
      ++counts.replays;
      if (stream != stream_) return absl::OkStatus();  // nobody waits for that one: it is too late
      for (const auto& work : tape_) work();
      return absl::OkStatus();
    }
    void CloseWithGroups() override { of_groups.push_back(closed_); }
    bool IsClosed() const override { return *closed_; }

   private:
    Tape tape_;
    void* const stream_;  // that it was recorded on
    std::shared_ptr<bool> closed_ = std::make_shared<bool>(false);
  };

  absl::Status Serves(c10::Device) override {
    return serves ? absl::OkStatus() : absl::UnavailableError("this device is not served");
  }
  absl::Status Carries(const std::string& group, c10::Device) override {
    return group == carried ? absl::OkStatus() : absl::FailedPreconditionError("not this group");
  }
  absl::StatusOr<void*> CurrentStream(c10::Device) override {
    if (user_captures) return absl::UnavailableError("captured");
    return stream;
  }
  absl::StatusOr<std::unique_ptr<CudaGraphRecording>> Record(c10::Device,
                                                             const std::function<absl::Status()>& work) override {
    ++counts.begun;
    Tape tape;
    recorded_tape = &tape;
    absl::Status status = work();
    recorded_tape = nullptr;
    if (fails) status = absl::InternalError("the device cannot record this");
    if (!status.ok()) return status;
    return std::make_unique<Recording>(std::move(tape));
  }
};

using Work = std::function<void(absl::Span<const at::Tensor>, absl::Span<at::Tensor>)>;

class TapedExecutable final : public Executable {
 public:
  explicit TapedExecutable(Work work) : work_(std::move(work)) {}
  absl::Status Run(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t>,
                   absl::Span<at::Tensor> outputs) const override {
    work_(inputs, outputs);
    return absl::OkStatus();
  }
  std::vector<PlanGroup> Explain() const override { return {}; }

 private:
  Work work_;
};

// result[i] = f(a[i], b[i]) of dense f32 tensors, by the addresses that they have now.
template <typename F>
void Elementwise(const at::Tensor& result, const at::Tensor& a, const at::Tensor& b, F f) {
  float* out = result.data_ptr<float>();
  const float *x = a.const_data_ptr<float>(), *y = b.const_data_ptr<float>();
  Launch([out, x, y, n = result.numel(), f] {
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(x[i], y[i]);
  });
}

inline constexpr char kTwoInputs[] = R"(graph "g" functional
input %0: f32[4, 3] argument
input %1: f32[4, 3] argument
%2: f32[4, 3] = aten.mul.Tensor(%0, %1)
%3: f32[4, 3] = aten.add.Tensor(%0, %1, alpha=1)
output %2 user
output %3 hidden
)";

inline constexpr char kWithCollective[] = R"(graph "g" functional
input %0: f32[4, 3] argument
input %1: f32[4, 3] argument
%2: f32[4, 3] = aten.mul.Tensor(%0, %1)
%3: f32[4, 3] = _c10d_functional.all_reduce(%2, "sum", "7")
%4: f32[4, 3] = _c10d_functional.wait_tensor(%3)
%5: f32[4, 3] = aten.add.Tensor(%0, %1, alpha=1)
output %4 user
output %5 user
)";

// Outputs: x * y, visible; x + y, hidden where `first_kept_output` says so.
inline void ProductAndSum(absl::Span<const at::Tensor> in, absl::Span<at::Tensor> out) {
  out[0] = at::empty({4, 3});
  out[1] = at::empty({4, 3});
  Elementwise(out[0], in[0], in[1], [](float a, float b) { return a * b; });
  Elementwise(out[1], in[0], in[1], [](float a, float b) { return a + b; });
}

class Recorded : public ::testing::Test {
 protected:
  Recorded() {
    SetCudaGraphRecorder(std::make_unique<TapeRecorder>());
    TapeRecorder::counts = {};
    TapeRecorder::stream = nullptr;
    TapeRecorder::user_captures = TapeRecorder::fails = false;
    TapeRecorder::serves = true;
    TapeRecorder::carried = {};
    TapeRecorder::of_groups.clear();
  }
  ~Recorded() override { SetCudaGraphRecorder(nullptr); }

  static std::unique_ptr<Executable> Make(Work work, const char* text = kTwoInputs, int first_kept = 1,
                                          int first_tangent = -1) {
    absl::StatusOr<ir::Graph> graph = ir::Parse(text);
    EXPECT_TRUE(graph.ok()) << MessageOf(graph.status());
    BackendOptions options;
    options.first_kept_output = first_kept;
    options.first_tangent = first_tangent;
    const ExecutableFactory factory = RecordingFactory([work](ir::Graph, const BackendOptions&) {
      return absl::StatusOr<std::unique_ptr<Executable>>(std::make_unique<TapedExecutable>(work));
    });
    return *factory(*std::move(graph), options);
  }
  static std::vector<at::Tensor> Run(const Executable& executable, const std::vector<at::Tensor>& inputs,
                                     std::size_t outputs = 2) {
    std::vector<at::Tensor> results(outputs);
    EXPECT_TRUE(executable.Run(inputs, {}, absl::MakeSpan(results)).ok());
    return results;
  }
  const Counts& counts() const { return TapeRecorder::counts; }
};

}  // namespace framefuse

#endif  // FRAMEFUSE_TESTS_RUNTIME_TAPE_RECORDER_H_
