#include "backends/runtime/background_executable.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "backends/graph/backend.h"
#include "backends/runtime/aten_sequence.h"
#include "backends/runtime/background_work.h"
#include "common/logging.h"
#include "common/status.h"

namespace framefuse {
namespace {

struct {
  std::atomic<std::int64_t> begun = 0, done = 0, failed = 0;
} counts;

// What a thread makes, and its executable waits for. Whoever is last lets go of both.
class Making {
 public:
  const Executable* ready() const { return ready_.load(std::memory_order_acquire); }

  void Take(std::unique_ptr<Executable> made) {
    const std::lock_guard lock(mutex_);
    made_ = std::move(made);
    if (overwrites_.has_value()) made_->AllowOverwrites(*overwrites_);
    ready_.store(made_.get(), std::memory_order_release);
  }
  // Before any run.
  void AllowOverwrites(absl::Span<const Overwrite> overwrites) {
    const std::lock_guard lock(mutex_);
    overwrites_.emplace(overwrites.begin(), overwrites.end());
    if (made_ != nullptr) made_->AllowOverwrites(*overwrites_);
  }

 private:
  std::mutex mutex_;
  std::optional<std::vector<Overwrite>> overwrites_;
  std::unique_ptr<Executable> made_;
  std::atomic<const Executable*> ready_ = nullptr;
};

void Make(const ExecutableFactory& factory, ir::Graph graph, const BackendOptions& options, Making* making) {
  const std::string name = graph.name;
  absl::Status status = absl::OkStatus();
  try {
    const at::AutoDispatchBelowADInplaceOrView below;
    absl::StatusOr<std::unique_ptr<Executable>> made = factory(std::move(graph), options);
    status = made.status();
    if (made.ok()) making->Take(*std::move(made));
  } catch (...) {
    status = TorchErrorStatus(std::current_exception(), "");
  }
  if (status.ok()) {
    ++counts.done;
    FF_LOG(kFusion) << name << ": made in the background";
  } else {
    ++counts.failed;
    FF_LOG(kFusion) << name << ": ATen operators go on, nothing was made in the background: " << MessageOf(status);
  }
}

class BackgroundExecutable final : public Executable {
 public:
  BackgroundExecutable(std::unique_ptr<Executable> plain, std::shared_ptr<Making> making)
      : plain_(std::move(plain)), making_(std::move(making)) {}

  absl::Status Run(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                   absl::Span<at::Tensor> outputs) const override {
    const Executable& own = Current();
    return Said(own, own.Run(inputs, symbols, outputs));
  }
  absl::Status RunConsuming(absl::Span<at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                            absl::Span<at::Tensor> outputs) const override {
    const Executable& own = Current();
    return Said(own, own.RunConsuming(inputs, symbols, outputs));
  }
  absl::Status RunTelling(absl::Span<at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                          absl::Span<at::Tensor> outputs, absl::Span<const std::size_t> order,
                          absl::FunctionRef<void(std::size_t output)> made) const override {
    const Executable& own = Current();
    return Said(own, own.RunTelling(inputs, symbols, outputs, order, made));
  }
  void AllowOverwrites(absl::Span<const Overwrite> overwrites) override {
    may_write_ = !overwrites.empty();
    making_->AllowOverwrites(overwrites);
  }
  bool WritesInputs() const override { return may_write_ || Current().WritesInputs(); }
  std::vector<PlanGroup> Explain() const override { return Current().Explain(); }

 private:
  const Executable& Current() const {
    const Executable* ready = making_->ready();
    return ready != nullptr ? *ready : *plain_;
  }
  // One that writes none says nothing of it.
  static absl::Status Said(const Executable& own, absl::Status status) {
    if (!status.ok() && !own.WritesInputs()) MarkInputsUntouched(status);
    return status;
  }

  const std::unique_ptr<Executable> plain_;
  const std::shared_ptr<Making> making_;
  bool may_write_ = false;
};

}  // namespace

ExecutableFactory InBackground(ExecutableFactory factory) {
  return [factory = std::move(factory)](ir::Graph graph,
                                        const BackendOptions& options) -> absl::StatusOr<std::unique_ptr<Executable>> {
    absl::StatusOr<std::unique_ptr<Executable>> plain = AtenSequence::Create(graph, options);
    if (!plain.ok()) return factory(std::move(graph), options);
    auto making = std::make_shared<Making>();
    ++counts.begun;
    RunInBackground([factory, graph = std::move(graph), options, waiting = std::weak_ptr<Making>(making)]() mutable {
      // Nobody waits any more where the plan is gone.
      if (const std::shared_ptr<Making> held = waiting.lock()) Make(factory, std::move(graph), options, held.get());
    });
    return std::make_unique<BackgroundExecutable>(*std::move(plain), std::move(making));
  };
}

BackgroundCounts GetBackgroundCounts() { return {counts.begun, counts.done, counts.failed}; }

}  // namespace framefuse
