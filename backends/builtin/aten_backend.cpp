#include "backends/builtin/aten_backend.h"

#include <utility>

#include "backends/autograd/compiled_plan.h"
#include "backends/runtime/aten_sequence.h"

namespace framefuse {
namespace {

class AtenBackend final : public Backend {
 public:
  absl::StatusOr<std::shared_ptr<Plan>> Compile(ir::Graph graph, const BackendOptions& options) override {
    BackendOptions mine = options;
    mine.save_all = true;  // without fusion a recomputed node costs as much as it did the first time
    return CompileWithAutograd("aten", std::move(graph), AtenSequence::Create, mine);
  }
};

}  // namespace

std::unique_ptr<Backend> MakeAtenBackend() { return std::make_unique<AtenBackend>(); }

}  // namespace framefuse
