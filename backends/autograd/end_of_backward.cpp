#include "backends/autograd/end_of_backward.h"

#include <torch/csrc/autograd/engine.h>

#include <memory>
#include <utility>

namespace framefuse {
namespace {

// The engine calls its callbacks after a pass that succeeds, and drops them unused after one that fails.
struct Once {
  explicit Once(std::function<void()> f) : call(std::move(f)) {}
  Once(const Once&) = delete;
  Once& operator=(const Once&) = delete;
  ~Once() { Call(); }
  void Call() {
    if (call) std::exchange(call, nullptr)();
  }
  std::function<void()> call;
};

}  // namespace

void AtEndOfBackward(std::function<void()> f) {
  auto once = std::make_shared<Once>(std::move(f));
  torch::autograd::Engine::get_default_engine().queue_callback([once] { once->Call(); });
}

}  // namespace framefuse
