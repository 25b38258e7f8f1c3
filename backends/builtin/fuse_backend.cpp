#include "backends/builtin/fuse_backend.h"

#include <utility>

#include "backends/autograd/compiled_plan.h"
#include "backends/fusion/channels_last.h"
#include "backends/fusion/decompose.h"
#include "backends/fusion/fused_executable.h"
#include "backends/runtime/aten_sequence.h"

namespace framefuse {
namespace {

class FuseBackend final : public Backend {
 public:
  absl::StatusOr<std::shared_ptr<Plan>> Compile(ir::Graph graph, const BackendOptions& options) override {
    static constexpr Pass kPasses[] = {{"native_batch_norm_gradients", fusion::UseNativeBatchNormGradients},
                                       {"lay_out_channels_last", fusion::LayOutChannelsLast, /*lays_out=*/true},
                                       {"open_log_softmax", fusion::OpenLogSoftmax, /*lays_out=*/true}};
    // The backward's graph, too: it may get them as saved values.
    const auto create = fusion::HasZerosWithoutMemory(graph) ? AtenSequence::Create : fusion::FusedExecutable::Create;
    return CompileWithAutograd("fuse", std::move(graph), create, options, kPasses);
  }
};

}  // namespace

std::unique_ptr<Backend> MakeFuseBackend() { return std::make_unique<FuseBackend>(); }

}  // namespace framefuse
