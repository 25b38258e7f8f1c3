// PinWatch: says in the log `dynamic` which operator relied on facts about sizes while it was recorded.
// Invariant: changes nothing.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_PIN_WATCH_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_PIN_WATCH_H_

#include "common/logging.h"
#include "symbolic/tracing/op_traits.h"
#include "symbolic/tracing/sizes.h"

namespace framefuse::tracing {

class PinWatch {
 public:
  PinWatch(const Sizes& sizes, const OpTraits& traits) : sizes_(sizes), traits_(traits), facts_(sizes.facts().size()) {}
  ~PinWatch() {
    if (sizes_.facts().size() == facts_ || !LogEnabled(LogArtifact::kDynamic)) return;
    FF_LOG(kDynamic) << "that was for " << traits_.op->name();
  }
  PinWatch(const PinWatch&) = delete;
  PinWatch& operator=(const PinWatch&) = delete;

 private:
  const Sizes& sizes_;
  const OpTraits& traits_;
  std::size_t facts_;
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_PIN_WATCH_H_
