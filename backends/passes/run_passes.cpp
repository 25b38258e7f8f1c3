// The standard passes in their order, each timed, dumped and verified.
#include <chrono>
#include <string>

#include "backends/passes/pass.h"
#include "common/config.h"
#include "common/coverage.h"
#include "common/logging.h"
#include "common/status.h"

namespace framefuse {
namespace {

const bool declared =
    DeclareKinds("pass", {"functionalize", "remove_no_ops", "simplify_views", "merge_common_subexpressions",
                          "fold_constants", "eliminate_dead_code", "join_slices", "decompose", "sink_views",
                          "lift_views", "drop_views", "sink_cats", "lay_out_channels_last", "open_log_softmax",
                          "native_batch_norm_gradients", "pad_products", "open_biases"});

}  // namespace

absl::Status VerifyMetadataInTests(const ir::Graph& graph, bool strides_too) {
  return config().verify_metadata ? ir::VerifyMetadata(graph, strides_too) : absl::OkStatus();
}

absl::Status RunPasses(ir::Graph& graph, absl::Span<const Pass> passes, std::vector<PhaseTime>* times) {
  bool strides_too = true;
  for (const Pass& pass : passes) {
    strides_too = strides_too && !pass.lays_out;
    auto begin = std::chrono::steady_clock::now();
    absl::StatusOr<bool> changed = pass.run(graph);
    std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    if (times != nullptr) times->push_back({std::string("pass ") + pass.name, time.count()});
    FF_RETURN_IF_ERROR(Annotate(changed.status(), pass.name));
    if (CountsKinds()) CountKind("pass", pass.name, *changed);
    if (!*changed) continue;
    FF_RETURN_IF_ERROR(Annotate(ir::Verify(graph), std::string("after ") + pass.name));
    FF_RETURN_IF_ERROR(Annotate(VerifyMetadataInTests(graph, strides_too), std::string("after ") + pass.name));
    FF_LOG(kAot) << "after " << pass.name << "\n" << ir::Print(graph);
  }
  return absl::OkStatus();
}

absl::Span<const Pass> StandardPasses() {
  static constexpr Pass kPasses[] = {
      {"remove_no_ops", RemoveNoOps},
      {"simplify_views", SimplifyViews},
      {"merge_common_subexpressions", MergeCommonSubexpressions},
      {"fold_constants", FoldConstants},
      {"eliminate_dead_code", EliminateDeadCode},
  };
  return kPasses;
}

}  // namespace framefuse
