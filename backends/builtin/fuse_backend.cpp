#include "backends/builtin/fuse_backend.h"

#include <utility>

#include "backends/autograd/compiled_plan.h"
#include "backends/fusion/fused_executable.h"

namespace framefuse {
namespace {

class FuseBackend final : public Backend {
 public:
  absl::StatusOr<std::shared_ptr<Plan>> Compile(ir::Graph graph, const BackendOptions& options) override {
    return CompileWithAutograd("fuse", std::move(graph), fusion::FusedExecutable::Create, options);
  }
};

}  // namespace

std::unique_ptr<Backend> MakeFuseBackend() { return std::make_unique<FuseBackend>(); }

}  // namespace framefuse
