#include "backends/emit/cuda/kernel_name.h"

#include <cstdint>
#include <cstdio>
#include <set>
#include <string_view>

namespace framefuse::emit {
namespace {

using kernel_ir::OpClass;

bool IsTelling(OpClass cls) {
  switch (cls) {
    case OpClass::kArith:
    case OpClass::kCompare:
    case OpClass::kMath:
    case OpClass::kReduce:
    case OpClass::kScan:
      return true;
    case OpClass::kLeaf:
    case OpClass::kMemory:
    case OpClass::kBits:
    case OpClass::kConvert:
      return false;
  }
  return false;
}

}  // namespace

std::string KernelName(const kernel_ir::Kernel& kernel, const std::string& body) {
  constexpr std::size_t kLongest = 48;
  constexpr std::string_view kReduce = "reduce_";
  std::string name = "ff";
  std::set<kernel_ir::Op> named;
  for (const kernel_ir::Inst& inst : kernel.insts) {
    if (!IsTelling(kernel_ir::ClassOf(inst.op)) || !named.insert(inst.op).second) continue;
    std::string_view op = kernel_ir::Name(inst.op);
    if (op.starts_with(kReduce)) op.remove_prefix(kReduce.size());
    if (name.size() + 1 + op.size() > kLongest) break;
    name.append("_").append(op);
  }
  std::uint64_t h = 14695981039346656037ull;
  for (const char c : body) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  char hash[24];
  std::snprintf(hash, sizeof hash, "_%016llx", static_cast<unsigned long long>(h));
  return name + hash;
}

}  // namespace framefuse::emit
