// OwnHook: marks a hook that framefuse puts behind an autograd node of torch's own, to be told when it has run.
// Invariant: nobody sees it. Whether a program looks at a node is asked by HasHooksOfOthers().
#ifndef FRAMEFUSE_COMMON_OWN_HOOK_H_
#define FRAMEFUSE_COMMON_OWN_HOOK_H_

#include <algorithm>

namespace framefuse {

class OwnHook {
 public:
  OwnHook() = default;
  virtual ~OwnHook() = default;
  OwnHook(const OwnHook&) = delete;
  OwnHook& operator=(const OwnHook&) = delete;
};

template <typename Node>
bool HasHooksOfOthers(Node& node) {
  const auto& after = node.post_hooks();
  return !node.tensor_pre_hooks().empty() || !node.pre_hooks().empty() ||
         std::any_of(after.begin(), after.end(),
                     [](const auto& hook) { return dynamic_cast<const OwnHook*>(hook.get()) == nullptr; });
}

}  // namespace framefuse

#endif  // FRAMEFUSE_COMMON_OWN_HOOK_H_
