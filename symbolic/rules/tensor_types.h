// tensor_types: which Python objects and types are tensors, asked without torch's headers.
// Invariant: valid once torch is imported; the types are kept alive for ever.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_TENSOR_TYPES_H_
#define FRAMEFUSE_SYMBOLIC_RULES_TENSOR_TYPES_H_

#include <cstdint>
#include <string_view>

#include "frame_eval/ref.h"
#include "guards/leaf/tensor.h"  // IsTensor

namespace framefuse {

bool IsTensorType(BorrowedRef object);  // torch.Tensor, torch._C.TensorBase or a subclass of them
// torch.LongTensor and its like, torch.autograd.Variable: makers of tensors from before there were dtypes.
bool IsLegacyTensorType(BorrowedRef object);
// A tensor whose hash is its address: captured code is told that of the original.
bool IsTensorByAddress(BorrowedRef object);
bool IsParameter(BorrowedRef object);          // type(object) is torch.nn.Parameter
bool IsTorchOperator(PyTypeObject* type);      // torch.ops.…: OpOverload, OpOverloadPacket
bool IsOperatorNamespace(PyTypeObject* type);  // torch.ops and what is in it
// Whether the guard of a tensor decides this attribute of it: tensor_attributes.def.
enum class GuardedAttribute : std::uint8_t { kNo, kYes, kIfNone };
GuardedAttribute GuardedTensorAttribute(std::string_view name);
// Whether an attribute or function of this name may do another thing for a leaf than for other tensors.
bool LeavesDecide(std::string_view name);
// Tells tracked.h which of torch's types are immutable leaves (dtype, device, layout, memory_format, Size).
void RegisterTorchLeafTypes();

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_TENSOR_TYPES_H_
