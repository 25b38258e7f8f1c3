#include "backends/graph/op_kernels.h"

#include <string>

namespace framefuse::ir {
namespace {

// OperatorEntry keeps the kernels that a later registration shadows in a private member. Explicit instantiation
// may name private members (temp.spec.general), so this reads it without a copy of torch's class layout.
template <typename Tag, auto kMember>
struct MemberAccess {
  friend auto Member(Tag) { return kMember; }
};
struct KernelsTag {
  friend auto Member(KernelsTag);
};
template struct MemberAccess<KernelsTag, &c10::impl::OperatorEntry::kernels_>;
struct DefinitionTag {
  friend auto Member(DefinitionTag);
};
template struct MemberAccess<DefinitionTag, &c10::OperatorHandle::operatorDef_>;

const auto& KernelsOf(const c10::OperatorHandle& handle) {
  return (handle.*Member(DefinitionTag{}))->op.*Member(KernelsTag{});
}

bool IsPythonKernel(const c10::impl::AnnotatedKernel& kernel) {
  return kernel.debug.find(".py:") != std::string::npos || kernel.debug.find("python") != std::string::npos;
}

}  // namespace

const c10::KernelFunction* FindKernel(const c10::OperatorHandle& handle, c10::DispatchKey key, bool python) {
  const auto& kernels = KernelsOf(handle);
  auto it = kernels.find(key);
  if (it == kernels.end()) return nullptr;
  for (const c10::impl::AnnotatedKernel& k : it->second) {
    if (!k.kernel.isValid() || k.kernel.isFallthrough()) continue;
    if (IsPythonKernel(k) == python) return &k.kernel;
  }
  return nullptr;
}

}  // namespace framefuse::ir
